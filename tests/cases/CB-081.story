# What the process held and what it read back from the disk were not the same: a record type got lost on the way.
# Right: every kind of record comes back as it was; the reopened view is the live one, byte for byte.
# https://github.com/google/adk-python/issues/3487

> policy trigger=600 ceiling=9000 target=300 floor=6
> system s1 "You are an agent."
s1 at 1
> dialogue 1..15 tokens=40
u1..a15 (30) at 2..31
> call k1 look:c1 look:c2 text="let me see"
k1 at 32
> result r1 c1 "first"
r1 at 33
> result r2 c2 "still at it" pending
r2 at 34
> result r3 c2 "second"
r3 at 35
> say '{"role":"user","content":[{"type":"text","text":"see this"},{"type":"image_url","image_url":{"url":"data:image/png;base64,BYTES"}}]}' ids=i1 bytes=300
i1 at 36
> pin "never touch main"
> compact
g1 covers u1..u15 (29), keeps s1..i1 (7); 3011 -> 1903 tokens
> effect e1 mail
sent, settled: "ok"
> mark live
> reopen
> must same messages live
> must same turns live
> must same ledger live
> user u20 "go on"
u20 at 42
> compact
g2 covers a15, keeps s1..u20 (7); 1909 -> 1809 tokens
> verify
POST_COMPACTION_CLEAN

# The handles of two jobs under way were in the prose of the summary, and after the second compaction one digit was wrong.
# Right: handles are data, exact after any compaction, checkpoint and rollback.
# https://github.com/adolfousier/opencrabs/issues/936

> policy trigger=600 ceiling=9000 target=300 floor=2
> effect h1 train then=open handle="https://jobs.example/8f3a-2291-00c7"
sent, under way
> effect h2 train args='{"n":2}' then=open handle="https://jobs.example/8f3a-2291-00c8"
sent, under way
> dialogue 1..15 tokens=40
u1..a15 (30) at 5..34
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 331 tokens
> dialogue 16..30 tokens=40
u16..a30 (30) at 37..66
> compact
g2 covers u15..a29 (30), keeps u30 a30; 1651 -> 361 tokens
> must tell "https://jobs.example/8f3a-2291-00c7" "https://jobs.example/8f3a-2291-00c8"
> crash
> must tell "https://jobs.example/8f3a-2291-00c7" "https://jobs.example/8f3a-2291-00c8"
> must state h1 unknown
> view
[g2 summary of 58] u30 a30
open effects: h1 (unknown) at https://jobs.example/8f3a-2291-00c7, h2 (unknown) at https://jobs.example/8f3a-2291-00c8

# Step 1 was done, step 2 had timed out, step 3 was only planned; the summary said that all was done.
# Right: what is done is what the ledger says; a text that says otherwise is refused.
# https://github.com/browser-use/browser-use/pull/4403

> policy trigger=600 ceiling=9000 target=300 floor=2
> effect s1 create_user
sent, settled: "ok"
> effect s2 send_invite then=raise
sent, then a timeout: outcome unknown
> dialogue 1..15 tokens=40
u1..a15 (30) at 5..34
> mark before
> summarizer says "create_user is done. send_invite was completed successfully. The parts one to fourteen were looked at as well."
> compact
refused summary/false_completion
> must same messages before
> must be generation 0
> summarizer honest
> compact
g2 covers u1..a14 (28), keeps u15 a15; 1320 -> 331 tokens
> view
[g2 summary of 28] u15 a15
open effects: s2 (unknown)
done: s1
> must tell "s2"
> must state s2 unknown

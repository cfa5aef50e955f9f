# A fork copied the records under new ids; the compaction's anchor pointed at an old id that was not there, and everything was shown.
# Right: a fork's references are its own; one that points nowhere is an error, never "show all".
# https://github.com/anomalyco/opencode/issues/24781

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 359 tokens
> mark parent
> fork child
child begins at seq 33
> session child
> must same messages parent
> expand g1
u1..a13 (26)
> verify
POST_COMPACTION_CLEAN
> crash
> must same messages parent
> damage drop 3
1 rows damaged
> expand g1
corrupt at seq 3: missing entries, phantom deletion
> must fail Corrupt

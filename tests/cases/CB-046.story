# Records queued during a compaction that then did not help were thrown away with it.
# Right: they are there whatever becomes of the compaction: committed, refused, failed or aborted.
# https://github.com/earendil-works/pi/issues/179

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> summarizer empty
> meanwhile user q1 "in the refused one"
> compact
meanwhile: q1 at 32
refused summary/empty
> must refuse summary/empty
> summarizer raises
> meanwhile user q2 "in the failed one"
> compact
meanwhile: q2 at 35
failed: RuntimeError
> plan
plan g3: covers u1..a15 (30), keeps q1 q2
> user q3 "in the aborted one"
q3 at 38
> abort
> summarizer honest
> meanwhile user q4 "in the committed one"
> compact
meanwhile: q4 at 41
g4 covers u1..q1 (31), keeps q2 q3 q4; 1361 -> 218 tokens
> must have_said q1 q2 q3 q4
> must show q3 q4

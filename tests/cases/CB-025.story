# Four threads compacted one session at once: four summaries, one after the other, each of the one before.
# Right: one call of the summarizer for a generation; the others are told that one is under way, or that there is nothing to do.
# https://github.com/google/adk-go/pull/1234

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..20 tokens=40
u1..a20 (40) at 1..40
> together 4 maybe_compact
1 x g1 covers u1..u19 (37), keeps a19 u20 a20; 1760 -> 327 tokens
3 x refused compaction/in_flight
> must be generation 1
> must be_asked 1
> verify
POST_COMPACTION_CLEAN

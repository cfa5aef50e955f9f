# Three budget passes in a row each inserted a marker for the same 48 old records and freed nothing.
# Right: a pass works on the present view; it frees something or does nothing; one node stands for what is put aside.
# https://github.com/RooCodeInc/Roo-Code/pull/9844

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..24 tokens=40
u1..a24 (48) at 1..48
> spill u1 a1 u2 a2
spilled into g1
> spill u1 a1
refused compaction/not_in_view
> compact
g2 covers u1..a23 (46), keeps u24 a24; 1969 -> 291 tokens
> compact
nothing: unchanged
> must do_nothing unchanged
> compact
nothing: unchanged
> must do_nothing unchanged
> view
[g2 summary of 46] u24 a24

# Two calls within 100 ms compacted twice; the second one summarised the first one's summary.
# Right: the second is a no-op; nothing is written.
# https://github.com/aaif-goose/goose/issues/4529

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> mark one
> compact
nothing: unchanged
> must do_nothing unchanged
> must same log one
> must same messages one
> B: compact
nothing: unchanged
> must do_nothing unchanged
> must be_asked 1

# A second pass with nothing new replaced a good summary by one that had never seen the previous one.
# Right: nothing to cover is a no-op without any call. And a summary that did not read its predecessor never takes its place.
# https://github.com/openclaw/openclaw/issues/120663

> policy trigger=300 ceiling=900 target=150 floor=2
> dialogue 1..4 tokens=60
u1..a4 (8) at 1..8
> compact
g1 covers u1..a3 (6), keeps u4 a4; 512 -> 233 tokens
> mark one
> compact
nothing: unchanged
> must do_nothing unchanged
> must be_asked 1
> must same log one
> dialogue 5..6 tokens=60
u5 a5 u6 a6 at 11..14
> summarizer says "Facts: the request and the answer were looked at, each for itself, and nothing else was there." forgets=yes
> compact
refused summary/previous_undeclared
> must refuse summary/previous_undeclared
> must be generation 1

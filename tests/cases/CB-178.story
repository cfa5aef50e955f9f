# The client timed out and asked again: the history was compacted twice, the second time without anything new.
# Right: a second call is a no-op; a retry under the same request id gets the first one's result.
# https://github.com/arcee-ai/nac/issues/147

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact request=req-1
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> mark one
> compact request=req-1
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must print "g1 covers"
> must same log one
> compact
nothing: unchanged
> must do_nothing unchanged
> crash
> compact request=req-1
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must print "g1 covers"
> must be_asked 1

# The model spent all its tokens on thinking: no text came, or a text cut off in the middle, and it was committed.
# Right: a thought is no summary, and a text that was cut off by its length is none either.
# https://github.com/skorokithakis/stavrobot/issues/28

> policy trigger=900 ceiling=2400 target=300 floor=2
> dialogue 1..20 tokens=40
u1..a20 (40) at 1..40
> mark before
> summarizer thinking only
> compact
refused summary/thinking_only
> must be generation 0
> summarizer length-truncated
> compact
refused summary/truncated
> must be generation 0
> must same messages before
> summarizer honest
> compact
g3 covers u1..a19 (38), keeps u20 a20; 1760 -> 283 tokens
> must be generation 3

# 809k were compacted to 2.7k, and the trigger was still true, for it looked at the old count: the next pass emptied the rest.
# Right: the trigger looks at the committed view.
# https://github.com/google-gemini/gemini-cli/issues/8586

> policy trigger=600 ceiling=90000 target=300 floor=2
> dialogue 1..200 tokens=40
u1..a200 (400) at 1..400
> maybe_compact
g1 covers u1..u199 (397), keeps a199 u200 a200; 17600 -> 349 tokens
> mark one
> maybe_compact
nothing: below_trigger
> must do_nothing below_trigger
> must same log one
> reopen
> maybe_compact
nothing: below_trigger
> must do_nothing below_trigger
> must be_asked 1

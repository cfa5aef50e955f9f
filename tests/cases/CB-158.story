# The window went from 1M to 200k when the model was changed; the session of 600k could neither be shown nor summarised.
# Right: budgets belong to each decision. The new one holds at once, and passes as small as the summarizer's window get there.
# https://github.com/zed-industries/zed/issues/61373

> policy trigger=9000 ceiling=90000 target=6000 floor=2
> dialogue 1..60 tokens=60
u1..a60 (120) at 1..120
> maybe_compact
nothing: below_trigger
> must do_nothing below_trigger
> policy trigger=600 ceiling=1000 target=400 summary_max_tokens=150
> summarizer honest window=3000
> maybe_compact
g5 covers u1..u59 (117), keeps a59 u60 a60; 7680 -> 404 tokens
> must be tokens <=1000
> must show u60 a60
> must have_said u1 a1 u60 a60

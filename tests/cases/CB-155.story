# 5,343 records to cover, 2M tokens, a summarizer that reads 1M: one request that could not be sent, again and again.
# Right: as many as fit are covered, committed, and it goes on with the rest.
# https://github.com/earendil-works/pi/issues/8196

> policy trigger=600 ceiling=90000 target=400 floor=2 summary_max_tokens=150
> dialogue 1..40 tokens=60
u1..a40 (80) at 1..80
> summarizer honest window=2500
> compact
g4 covers u1..a39 (78), keeps u40 a40; 5120 -> 351 tokens
> asked
to cover a30..a39 (19), kept u40 a40, with the previous summary, budget 150
> must be tokens <=700
> view
[g4 summary of 78] u40 a40
> must have_said u1 a1 u40 a40

# After a restart the token counts were unknown, and compacting as the first thing did nothing or broke.
# Right: sizes are part of each record; a fresh process can compact before anything else.
# https://github.com/google-gemini/gemini-cli/issues/16430

> policy trigger=3000 ceiling=90000 target=800 floor=2
> dialogue 1..40 tokens=100
u1..a40 (80) at 1..80
> status
head 80, generation 0, 8320 tokens, 80 items
> reopen
> compact
g1 covers u1..a39 (78), keeps u40 a40; 8320 -> 476 tokens
> must be tokens <=3000
> must show u40 a40

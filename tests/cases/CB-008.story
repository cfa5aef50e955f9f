# Old results were thinned out at every render, so that the prefix changed each time and no prompt cache ever held.
# Right: between generations what is shown only grows at its end; all rewriting happens at once, when a generation is committed.
# https://github.com/anomalyco/opencode/issues/32515

> policy trigger=2000 ceiling=4000 target=600 floor=2
> user u1 "read the files"
u1 at 1
> work 1..6 tokens=80
k1..r6 (12) appended
> mark before
> work 7..12 tokens=80
k7..r12 (12) appended
> must begin_with before
> dialogue 20..40 tokens=20
u20..a40 (42) at 26..67
> must begin_with before
> compact
g1 covers u1..a39 (65), keeps u40 a40; 2169 -> 281 tokens
> mark after
> dialogue 41..60 tokens=20
u41..a60 (40) at 70..109
> must begin_with after

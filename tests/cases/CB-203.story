# Cancelling a long compaction left a half-written store that took minutes to open.
# Right: giving up is always safe: the generation is the old one, and one goes on at once.
# https://github.com/anthropics/claude-code/issues/19443

> policy trigger=600 ceiling=90000 target=300 floor=2
> dialogue 1..100 tokens=40
u1..a100 (200) at 1..200
> mark before
> plan
plan g1: covers u1..a99 (198), keeps u100 a100
> abort "the user pressed escape"
> must same messages before
> plan
plan g2: covers u1..a99 (198), keeps u100 a100
> user u101 "go on"
u101 at 204
> abort
> must show u101
> compact
g3 covers u1..u100 (199), keeps a100 u101; 8806 -> 273 tokens
> must show u101
> verify
POST_COMPACTION_CLEAN

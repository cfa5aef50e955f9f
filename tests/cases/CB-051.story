# The list was saved again after each turn with copied objects; identity was how records were recognised, and all were stored twice.
# Right: what is handed over again is recognised by what it is: nothing is added.
# https://github.com/NousResearch/hermes-agent/issues/98450

> policy trigger=600 ceiling=9000 target=300 floor=12
> dialogue 1..20 tokens=40
u1..a20 (40) at 1..40
> compact
g1 covers u1..a14 (28), keeps u15..a20 (12); 1760 -> 713 tokens
> mark before
> save times=3
nothing added
> must same log before
> save '{"role":"user","content":"one new thing"}' times=1
1 turns added
> must print "1 turns"
> reopen
> save times=3
nothing added
> must print "nothing added"

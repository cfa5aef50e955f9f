# Summaries of summaries: after ten passes the first sentence of the first one stood in the view ten times.
# Right: one active summary for what is covered; an older one is never shown beside the newer.
# https://github.com/sudoprivacy/sudowork/issues/880

> policy trigger=600 ceiling=9000 target=300 floor=2
> summarizer honest
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> dialogue 16..30 tokens=40
u16..a30 (30) at 33..62
> compact
g2 covers u15..a29 (30), keeps u30 a30; 1593 -> 303 tokens
> dialogue 31..45 tokens=40
u31..a45 (30) at 65..94
> compact
g3 covers u30..a44 (30), keeps u45 a45; 1623 -> 311 tokens
> view
[g3 summary of 88] u45 a45
> must print "[g3 summary of 88] u45 a45"
> summary
g3: Facts from generation 3: behind lie u30 of user, a30 of assistant, u31 of user, a31 of assistant, u32 of user, a32 of assistant, u33 of user, a33 of assistant, u34 of user, a34 of assistant, u35 of user, a35 of assistant, u36 of user, a36 of assistant, u37 of user, a37 of assistant, u38 of user, a38
> must not_tell "generation 1" "generation 2"

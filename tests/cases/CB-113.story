# Coverage was kept as times: records of one and the same millisecond at the cut were covered twice or never, late ones vanished.
# Right: coverage is seqs, and exactly what the summarizer was shown; times are for people.
# https://github.com/google/adk-go/pull/1231

> policy trigger=600 ceiling=9000 target=300 floor=4
> many 20 user t tokens=40
t1..t20 (20) at 1..20
> clock 0 wall=-3600
> user late "appended later, with an older time"
late at 21
> many 3 agent x
x1 x2 x3 at 22..24
> compact
g1 covers t1..t20 (20), keeps late x1 x2 x3; 968 -> 280 tokens
> asked
to cover t1..t20 (20), kept late x1 x2 x3, without a previous summary, budget 150
> must have_said t1..t20 late
> view
[g1 summary of 20] late x1 x2 x3
> expand g1
t1..t20 (20)
> must print "t1..t20 (20)"
> must show_only late x1 x2 x3

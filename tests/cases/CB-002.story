# The summary's budget was computed from the size of the history; it was above the model's own limit, and each compaction failed.
# Right: the budget is the smallest of the policy's, the target's headroom and what the window leaves; known before the call.
# https://github.com/google-gemini/gemini-cli/issues/7784

> policy trigger=20000 ceiling=80000 target=9000 floor=2 summary_max_tokens=4000
> dialogue 1..40 tokens=700
u1..a40 (80) at 1..80
> compact
g1 covers u1..a39 (78), keeps u40 a40; 56320 -> 1952 tokens
> asked
to cover u1..a39 (78), kept u40 a40, without a previous summary, budget 4000
> must print "budget 4000"
> policy summary_max_tokens=8000 target=4000
> dialogue 41..60 tokens=700
u41..a60 (40) at 83..122
> compact
g2 covers u40..a59 (40), keeps u60 a60; 30112 -> 1803 tokens
> asked
to cover u40..a59 (40), kept u60 a60, with the previous summary, budget 2000
> must be tokens <=8000

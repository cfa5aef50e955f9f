# One record out of eighty made the redaction raise, at every pass: the session was never compacted again.
# Right: what is redacted is redacted when it comes in; one bad record blocks nothing.
# https://github.com/nearai/ironclaw/pull/6855

> policy trigger=600 ceiling=9000 target=300 floor=2
> redact hunter2
> many 40 user m tokens=20
m1..m40 (40) at 1..40
> user bad "password hunter2 \ud800 and a broken half"
bad at 41
> dialogue 1..15 tokens=40
u1..a15 (30) at 42..71
> compact
g1 covers m1..a14 (69), keeps u15 a15; 2299 -> 308 tokens
> must be generation 1
> must forget hunter2
> verify
POST_COMPACTION_CLEAN

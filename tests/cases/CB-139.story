# Trigger by count 120, tail of 119: each pass removed one record and added one, for ever.
# Right: a pass that gains too little is refused; after two the session is suspended until something new comes; users are still heard.
# https://github.com/OpenHands/software-agent-sdk/issues/1073

> policy trigger=300 ceiling=9000 target=280 floor=12
> dialogue 1..6 tokens=40
u1..a6 (12) at 1..12
> agent a7 "x"
a7 at 13
> maybe_compact
refused compaction/no_gain
> maybe_compact
refused compaction/no_gain
> maybe_compact
refused compaction/suspended
> must refuse compaction/suspended
> must be generation 0
> user u8 "still there?"
u8 at 19
> must show u8
> status
head 19, generation 0, 541 tokens, 14 items

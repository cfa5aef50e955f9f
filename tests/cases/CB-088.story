# A secret was redacted after the digest had been taken: the store was "corrupt" as soon as it was written.
# Right: what is stored is what was redacted; digests are over the stored bytes, and verify passes at once.
# https://github.com/tetsuo-ai/agenc-core/pull/2160

> policy trigger=300 ceiling=9000 target=200 floor=2
> redact sk-12345
> user u1 "the key is sk-12345, use it"
u1 at 1
> dialogue 2..8 tokens=40
u2..a8 (14) at 2..15
> verify
POST_COMPACTION_CLEAN
> must verify POST_COMPACTION_CLEAN
> compact
g1 covers u1..a7 (13), keeps u8 a8; 630 -> 225 tokens
> reopen
> must verify POST_COMPACTION_CLEAN
> must not_tell sk-12345
> search "key"
u1
> expand g1
u1..a7 (13)

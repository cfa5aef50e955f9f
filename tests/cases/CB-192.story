# A secret in a tool result was deleted from the view; it stood on in the archive, in the checkpoint and in the summary.
# Right: a purge erases it everywhere, says what it touched and what can no longer be gone back to, and it never returns.
# https://github.com/NousResearch/hermes-agent/pull/69294

> policy trigger=600 ceiling=9000 target=300 floor=2
> user u1 "read the vault"
u1 at 1
> call k1 read:c1
k1 at 2
> result r1 c1 "the secret is hunter2-forever"
r1 at 3
> agent a1 "read"
a1 at 4
> checkpoint with_it
with_it at seq 5, generation 0
> dialogue 2..15 tokens=40
u2..a15 (28) at 6..33
> compact
g1 covers u1..a14 (30), keeps u15 a15; 1271 -> 272 tokens
> fork child
child begins at seq 36
> purge r1 dry
would erase k1 r1 in 3 rows
generations erased: g1
kept by child
> must be generation 1
> purge r1
erased k1 r1 in 3 rows
generations erased: g1
> must not_tell hunter2-forever
> must forget hunter2-forever
> expand r1
refused retention/not_retained
> rollback with_it
went back to seq 5 (none); left behind: u2..a15 (28)
> must not_tell hunter2-forever
> session child
> must not_tell hunter2-forever
> verify
POST_COMPACTION_CLEAN
> session agent
> verify
POST_COMPACTION_CLEAN

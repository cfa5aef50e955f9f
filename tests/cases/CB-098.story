# 173k tokens were compacted to 28k; after a restart the session had 173k again, for the coverage had not been stored.
# Right: the same size in the same process, in a new one and in a fork.
# https://github.com/tamaratran/fast-jev-compaction/issues/89

> policy trigger=2000 ceiling=9000 target=600 floor=2
> dialogue 1..40 tokens=60
u1..a40 (80) at 1..80
> compact
g1 covers u1..a39 (78), keeps u40 a40; 5120 -> 396 tokens
> status
head 82, generation 1, 396 tokens, 4 items
> must be tokens 396
> reopen
> status
head 82, generation 1, 396 tokens, 4 items
> must be tokens 396
> fork child
child begins at seq 83
> session child
> status
head 83, generation 1, 396 tokens, 4 items
> must be tokens 396
> crash
> status
head 83, generation 1, 396 tokens, 4 items
> must be tokens 396

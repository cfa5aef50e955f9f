# A child compacted with its parent's session id: the parent's view was replaced by the child's.
# Right: a plan belongs to its session and its epoch; elsewhere it is refused, and nothing changes there.
# https://github.com/kirodotdev/Kiro/issues/10482

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> mark parent
> fork child
child begins at seq 31
> session child
> dialogue 16..30 tokens=40
u16..a30 (30) at 32..61
> plan
plan g1: covers u1..a29 (58), keeps u30 a30
> session agent
> commit
refused compaction/overtaken
> must explain "child"
> must same messages parent
> must be generation 0
> session child
> commit
g1 covers u1..a29 (58), keeps u30 a30; 2640 -> 303 tokens
> must be generation 1

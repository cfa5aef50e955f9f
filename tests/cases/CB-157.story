# At 98 % each failed turn added its own error record to the view, until nothing could be sent at all.
# Right: what is no message is not in the view; a failed attempt to compact adds nothing to it.
# https://github.com/CommandCodeAI/command-code/issues/891

> policy trigger=600 ceiling=1600 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> status
head 30, generation 0, 1320 tokens, 30 items
> summarizer raises
> compact
failed: RuntimeError
> status
head 32, generation 0, 1320 tokens, 30 items
> compact
failed: RuntimeError
> compact
failed: RuntimeError
> compact
failed: RuntimeError
> must fail "RuntimeError"
> must be items 30
> must be tokens 1320
> status
head 38, generation 0, 1320 tokens, 30 items

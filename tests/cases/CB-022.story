# Old turns were deleted first, then the summarizer was called; it failed (429, timeout), and they were gone.
# Right: first the summary, then its check, then one commit; on each failure everything is as it was, and the next turn may try again.
# https://github.com/langchain-ai/langchain/pull/38932

> policy trigger=600 ceiling=2400 target=300 floor=2 summary_timeout=0.1
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> mark before
> summarizer raises
> compact
failed: RuntimeError
> must fail RuntimeError
> must same messages before
> must same turns before
> summarizer hangs
> compact
failed: TimeoutError
> must same messages before
> summarizer honest
> compact
g3 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must be generation 3

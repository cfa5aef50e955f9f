# The adapter gave back its own error as text, and the error became the memory.
# Right: an error-shaped text, and one far too short for what it would stand for, are refused.
# https://github.com/s2b-dev/smart-second-brain/issues/435

> policy trigger=900 ceiling=2400 target=300 floor=2
> dialogue 1..20 tokens=40
u1..a20 (40) at 1..40
> mark before
> summarizer says "Error generating summary: incomplete chunked encoding"
> compact
refused summary/error_shaped
> must be generation 0
> summarizer says "ok"
> compact
refused summary/placeholder
> must be generation 0
> must same messages before

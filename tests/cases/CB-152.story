# Twenty images were written again with each of seventy compactions: the store grew to gigabytes.
# Right: content is stored once; a generation refers to it.
# https://github.com/openai/codex/issues/32287

> policy trigger=4000 ceiling=90000 target=3500 floor=2
> say '{"role":"user","content":[{"type":"text","text":"first"},{"type":"image_url","image_url":{"url":"data:image/png;base64,BYTES"}}]}' ids=i1 bytes=300000
i1 at 1
> dialogue 1..40 tokens=60
u1..a40 (80) at 2..81
> compact
g1 covers i1..a39 (79), keeps u40 a40; 5154 -> 396 tokens
> must be stored <=500000
> dialogue 41..80 tokens=60
u41..a80 (80) at 84..163
> compact
g2 covers u40..a79 (80), keeps u80 a80; 5516 -> 409 tokens
> dialogue 81..120 tokens=60
u81..a120 (80) at 166..245
> compact
g3 covers u80..a119 (80), keeps u120 a120; 5529 -> 399 tokens
> must be stored <=600000
> expand i1
i1

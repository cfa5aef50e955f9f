# The counter saw only text; JSON arguments, binary blocks and framing were left out, so that the trigger came too late.
# Right: one counter for every block; what the provider counted can only tighten it.
# https://github.com/shotgun-sh/shotgun/issues/458

> call k1 write args='{"path":"a/very/long/path/to/some/file.txt","lines":[1,2,3,4,5,6,7,8,9,10]}'
k1 at 1
> result r1 c1 tokens=30
r1 at 2
> say '{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,BYTES"}}]}' ids=u1 bytes=900
u1 at 3
> status
head 3, generation 0, 1680 tokens, 3 items
> must be tokens <=1800
> usage 700 10
1680 tokens
> must print "tokens"
> status
head 4, generation 0, 1680 tokens, 3 items
> usage 100 10
1680 tokens
> status
head 5, generation 0, 1680 tokens, 3 items

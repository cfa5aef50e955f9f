# One document of 6 MB inside the floor, under a limit of 5 MB: every request was refused, and nothing could be removed.
# Right: the oversized block is shown as a stub with a handle to its exact bytes; the floor's promise is kept.
# https://github.com/github/app/issues/2437

> policy trigger=4000 ceiling=9000 target=3000 floor=2 ceiling_bytes=50000 stub_bytes=20000
> user u1 "read this"
u1 at 1
> say '{"role":"user","content":[{"type":"text","text":"the document"},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,BYTES"}}]}' ids=d1 bytes=60000
d1 at 2
> status
head 2, generation 0, 44 tokens, 2 items
> view
u1 d1
> messages
user: read this
user: the document [application/pdf, 60,086 bytes, put aside byte-exact: ex...
> expand t:d1
d1
> must have_said u1 d1
> must tell t:d1
> must not_tell AAAAAAAA
> must be tokens <=100

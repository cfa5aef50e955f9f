# A missing newline glued two records together; the reader said "missing" and dropped both.
# Right: records are not framed by newlines. A text full of them, and of things that look like records, comes back as it was.
# https://github.com/QwenLM/qwen-code/issues/3606

> user u1 text='{"type":"user"}\n{"type":"assistant"}\n\n\r\n'
u1 at 1
> agent a1 text="line one\nline two"
a1 at 2
> reopen
> must tell '{"type":"user"}'
> must show_only u1 a1
> turns
u1 a1
> verify
POST_COMPACTION_CLEAN

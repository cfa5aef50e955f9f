# A batch of five records held a compaction marker in its middle; everything before the marker was dropped instead of stored.
# Right: all five are in the log; a marker in somebody's format is one more thing that was said.
# https://github.com/openai/openai-agents-js/issues/1668

> say '[{"role":"user","content":"u5"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"found"},{"role":"system","content":"compact_boundary","subtype":"compact_boundary"},{"role":"assistant","content":"done"}]' ids=u5,k1,r1,m1,a5
u5..a5 (5) at 1..5
> must have_said u5 k1 r1 m1 a5
> must show_only u5 k1 r1 m1 a5
> reopen
> must show_only u5 k1 r1 m1 a5

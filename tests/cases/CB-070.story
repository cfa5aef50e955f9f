# The tool raised a timeout although the payment had gone through; the retry paid again.
# Right: a timeout is not a failure. The outcome is unknown, and a retry is refused until it is known.
# https://github.com/Lexus2016/hermes-agent-evolution/issues/1924

> effect e1 pay args='{"to":"ann","amount":20}' then=raise
sent, then a timeout: outcome unknown
> must state e1 unknown
> effect e1 pay args='{"to":"ann","amount":20}'
refused emission/unknown
> must refuse emission/unknown
> must send pay 1
> resolve e1 not_happened "the bank has nothing"
e1: no_effect
> effect e1 pay args='{"to":"ann","amount":20}'
sent, settled: "ok"
> must send pay 2
> must state e1 done
> effect e2 read args='{"of":"ann"}' then=raise idempotent=yes
sent, then a timeout: outcome unknown
> effect e2 read args='{"of":"ann"}' idempotent=yes
sent, settled: "ok"
> must send read 2

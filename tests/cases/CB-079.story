# A task with three retries: the tool raised after it had done its work, and did it three times.
# Right: one execution; the other attempts are refused until the outcome is known.
# https://github.com/crewAIInc/crewAI/issues/5802

> effect t1 provision then=raise
sent, then a timeout: outcome unknown
> effect t1 provision then=raise
refused emission/unknown
> must refuse emission/unknown
> effect t1 provision then=raise
refused emission/unknown
> must refuse emission/unknown
> must send provision 1
> resolve t1 happened
t1: done
> effect t1 provision
not sent (recorded): null
> must send provision 1

# The summary's form had a field "user requests"; with nothing to fill in, the model invented one, and each pass carried it on.
# Right: an invented one is refused, also when it comes again.
# https://github.com/NousResearch/hermes-agent/issues/62365

> policy trigger=600 ceiling=9000 target=300 floor=2
> user u0 "begin"
u0 at 1
> work 1..20 tokens=30
k1..r20 (40) appended
> summarizer says "User asked: 'analyse all the wallets'. The twenty results were read one after the other and nothing stands out."
> compact
refused summary/invented_quote
> must refuse summary/invented_quote
> compact
refused summary/invented_quote
> must refuse summary/invented_quote
> must be generation 0
> summarizer honest
> compact
g3 covers k1..r19 (38), keeps u0 k20 r20; 926 -> 188 tokens
> must not_tell "analyse all the wallets"

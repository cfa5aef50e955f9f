# "delegate_payment" was taken for idempotent because of its name, and was run again after a crash.
# Right: what is not declared idempotent is not; names mean nothing; what was declared is stored with the effect.
# https://github.com/danieljvdm/effect-agent/pull/243

> effect p1 delegate_payment then=die
sent, and the process died
> effect p1 delegate_payment
refused emission/unknown
> must refuse emission/unknown
> must send delegate_payment 1
> effect r1 get_balance then=die
sent, and the process died
> effect r1 get_balance
refused emission/unknown
> must refuse emission/unknown
> must send get_balance 1
> effect r2 set_flag then=die idempotent=yes
sent, and the process died
> effect r2 set_flag idempotent=yes
sent, settled: "ok"
> must send set_flag 2

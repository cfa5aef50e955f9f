# A daily job crashed after it had sent, was restarted twelve times within its grace period, and sent each time.
# Right: intent first. Each restart finds one effect whose outcome is unknown; nothing is sent until somebody says what happened.
# https://github.com/NousResearch/hermes-agent/pull/3396

> effect cron:daily:03-27 mail then=die
sent, and the process died
> crash
> effect cron:daily:03-27 mail
refused emission/unknown
> must refuse emission/unknown
> crash
> effect cron:daily:03-27 mail
refused emission/unknown
> crash
> effect cron:daily:03-27 mail
refused emission/unknown
> must refuse emission/unknown
> must send mail 1
> status
head 1, generation 0, 0 tokens, 0 items, unknown cron:daily:03-27
> resolve cron:daily:03-27 happened "seen in the outbox"
cron:daily:03-27: done
> effect cron:daily:03-27 mail
not sent (recorded): null
> must send mail 1

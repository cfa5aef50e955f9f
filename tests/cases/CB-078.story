# One key, two different arguments: the second overwrote the first, and after a crash the first could not be found.
# Right: a conflict; the first entry is untouched and comes back after the crash.
# https://github.com/dbos-inc/dbos-transact-ts/issues/725

> effect k deploy args='{"to":"staging"}' then=open
sent, under way
> B: effect k deploy args='{"to":"production"}'
refused emission/key_conflict
> must fail KeyConflict
> crash
> must state k unknown
> effect k deploy args='{"to":"production"}'
refused emission/key_conflict
> must fail KeyConflict
> effect k deploy args='{"to":"staging"}'
refused emission/unknown
> must refuse emission/unknown
> must send deploy 1

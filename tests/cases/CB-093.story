# A reader that knew only the newer format treated the covered records as live ones: everything was shown twice.
# Right: an entry of a format that this version does not read is refused by name; nothing is guessed.
# https://github.com/bastani-inc/atomic/issues/1846

> dialogue 1..3
u1..a3 (6) at 1..6
> foreign turn_appended version=2
turn_appended at 7
> messages
unavailable
> must fail Unavailable
> must explain "format 2" "upgrade"
> turns
unavailable
> must fail Unavailable

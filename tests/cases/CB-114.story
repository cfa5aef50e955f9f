# Fifty records of one millisecond came back in another order, some twice, some on no page.
# Right: order is the seq; pages have neither gaps nor doubles.
# https://github.com/n8n-io/n8n/pull/27624

> many 50 user m
m1..m50 (50) at 1..50
the ceiling put aside: now g1, 801 tokens
> reopen
> turns limit=10
m41..m50 (10)
> turns limit=10 before=41
m31..m40 (10)
> turns limit=10 before=31
m21..m30 (10)
> turns limit=10 before=21
m11..m20 (10)
> must print "m11..m20 (10)"
> turns limit=10 before=11
m1..m10 (10)
> must have_said m1..m50

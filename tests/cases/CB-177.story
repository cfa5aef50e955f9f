# Eight exact values were said at the beginning; after some passes they were "a port", "the usual path", "some id".
# Right: exact values are carried as data beside the summary, however little it says.
# https://github.com/google/adk-go/pull/1431

> policy trigger=900 ceiling=9000 target=800 floor=2 summary_max_tokens=700
> summarizer values turned into labels
> user f1 "The service listens on port 8443 and the host is db-7.internal.example, reachable at 10.20.30.41."
f1 at 1
> user f2 "Deploy commit 9f8e7d6c5b4a to /srv/app/releases/2026-11; the ticket is OPS-4417."
f2 at 2
> user f3 "Never go above 250 requests a minute. The release is v3.14.2."
f3 at 3
> dialogue 1..12 tokens=40
u1..a12 (24) at 4..27
> compact
g1 covers f1..a11 (25), keeps u12 a12; 1149 -> 259 tokens
> must tell 8443 "db-7.internal.example" "10.20.30.41" 9f8e7d6c5b4a "/srv/app/releases/2026-11" OPS-4417 250 v3.14.2
> dialogue 13..24 tokens=40
u13..a24 (24) at 30..53
> compact
g2 covers u12..a23 (24), keeps u24 a24; 1315 -> 283 tokens
> dialogue 25..36 tokens=40
u25..a36 (24) at 56..79
> compact
g3 covers u24..a35 (24), keeps u36 a36; 1339 -> 307 tokens
> dialogue 37..48 tokens=40
u37..a48 (24) at 82..105
> compact
g4 covers u36..a47 (24), keeps u48 a48; 1363 -> 323 tokens
> dialogue 49..60 tokens=40
u49..a60 (24) at 108..131
> compact
g5 covers u48..a59 (24), keeps u60 a60; 1379 -> 323 tokens
> dialogue 61..72 tokens=40
u61..a72 (24) at 134..157
> compact
g6 covers u60..a71 (24), keeps u72 a72; 1379 -> 323 tokens
> dialogue 73..84 tokens=40
u73..a84 (24) at 160..183
> compact
g7 covers u72..a83 (24), keeps u84 a84; 1379 -> 323 tokens
> dialogue 85..96 tokens=40
u85..a96 (24) at 186..209
> compact
g8 covers u84..a95 (24), keeps u96 a96; 1379 -> 323 tokens
> dialogue 97..108 tokens=40
u97..a108 (24) at 212..235
> compact
g9 covers u96..a107 (24), keeps u108 a108; 1379 -> 318 tokens
> dialogue 109..120 tokens=40
u109..a120 (24) at 238..261
> compact
g10 covers u108..a119 (24), keeps u120 a120; 1374 -> 312 tokens
> must be generation 10
> must tell 8443 "db-7.internal.example" "10.20.30.41" 9f8e7d6c5b4a "/srv/app/releases/2026-11" OPS-4417 250 v3.14.2
> crash
> must tell 8443 "db-7.internal.example" "10.20.30.41" 9f8e7d6c5b4a "/srv/app/releases/2026-11" OPS-4417 250 v3.14.2

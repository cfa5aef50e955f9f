# A restore put the folder back as a whole, and a file that somebody else had made since then was gone.
# Right: going back changes the log's head and nothing else. What was done to the world since is listed, and left as it is.
# https://github.com/github/copilot-cli/issues/1675

> effect w1 write args='{"file":"a"}'
sent, settled: "ok"
> checkpoint here
here at seq 3, generation 0
> effect w2 write args='{"file":"c"}'
sent, settled: "ok"
> rollback here dry
would go back to seq 3 (guarded); left behind: nothing
guarded: w2
> must print "guarded: w2"
> mark before
> rollback here
went back to seq 3 (guarded); left behind: nothing
guarded: w2
> must print "guarded: w2"
> must same ledger before
> must send write 2
> must tell "w2"

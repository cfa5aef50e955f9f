------------------------------- MODULE Lineal -------------------------------
(* The log, the compaction of a view, recovery, rollback and effects of lineal, with two processes that may crash at any step.
   A process can be taken for dead while it lives (clocks may be wrong): only what is compared at the append keeps it harmless.

   What the memory is = the fold of the log: `past[n]` is the fold of the first n entries, and nothing else is ever read.

   `Broken` names a rule that is left out ("" leaves out none). formal/broken has one configuration for each. *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Procs, Effects, MaxLog, MaxCrashes, Broken

VARIABLES log,      \* the entries; the place of an entry is its seq
          past,     \* past[n]: the fold after n entries, with past[0] at index 1
          doing,    \* what a process is in the middle of; lost when it crashes
          life,     \* how often a process has begun anew: a lease is held by one life of a process
          world,    \* how often an effect really reached the world
          asked,    \* how often somebody decided that an effect has not happened
          back,     \* where the last recovery went
          act       \* the last action, for whoever replays a trace

vars == <<log, past, doing, life, world, asked, back, act>>
Seen == <<log, doing, life, world, asked, back>>   \* what makes two states different: `past` follows from `log`, `act` is for people

Idle == [is |-> "idle"]
Nowhere == [to |-> "nowhere", seq |-> 0, barrier |-> 0, inFlight |-> FALSE]

-----------------------------------------------------------------------------
(* The fold. `view`: turns shown word for word. `behind`: turns that a summary stands for. `said`: all turns of this branch.
   `open`: the compaction in flight (0: none), `by` whose. `barrier`: the last commit or rollback. `intent[e]`: where an effect's
   last intent stands (0: none), `state[e]` what is known of it. `epoch` counts rollbacks. `alive`: the seqs that no rollback has left behind. *)

Nothing == [view |-> {}, behind |-> {}, said |-> {}, gen |-> 0, last |-> 0, open |-> 0, by |-> <<>>, barrier |-> 0, epoch |-> 0, alive |-> {},
            intent |-> [e \in Effects |-> 0], state |-> [e \in Effects |-> "none"], holder |-> [e \in Effects |-> <<>>]]

Now == past[Len(past)]
At(n) == past[n + 1]

Stepped(s, n, x) ==
  CASE x.kind = "turn"      -> [s EXCEPT !.view = @ \cup {n}, !.said = @ \cup {n}]
    [] x.kind = "begun"     -> [s EXCEPT !.open = x.gen, !.last = x.gen, !.by = x.by]
    [] x.kind = "aborted"   -> [s EXCEPT !.open = 0, !.by = <<>>]
    [] x.kind = "removed"   -> [s EXCEPT !.view = @ \ x.covered]                       \* only where a commit is two steps
    [] x.kind = "committed" -> [s EXCEPT !.view = @ \ x.covered, !.behind = @ \cup x.covered, !.gen = x.gen, !.open = 0, !.by = <<>>,
                                         !.barrier = n]
    [] x.kind = "checkpoint" -> s
    [] x.kind = "intent"    -> [s EXCEPT !.intent[x.e] = n, !.state[x.e] = "intended", !.holder[x.e] = x.by]
    [] x.kind = "settled"   -> [s EXCEPT !.state[x.e] = "done"]
    [] x.kind = "unknown"   -> [s EXCEPT !.state = [e \in Effects |-> IF e \in x.of THEN "unknown" ELSE @[e]]]
    [] x.kind = "resolved"  -> [s EXCEPT !.state[x.e] = x.as]
    [] x.kind = "rollback"  ->
         LET then == At(x.to) IN
         [then EXCEPT !.epoch = s.epoch + 1, !.barrier = n, !.last = s.last, !.open = 0, !.by = <<>>,
                      !.intent = IF Broken = "ledger_rolled_back" THEN then.intent ELSE s.intent,
                      !.state  = IF Broken = "ledger_rolled_back" THEN then.state ELSE
                                [e \in Effects |-> IF s.state[e] = "intended" THEN "unknown" ELSE s.state[e]],
                      !.holder = IF Broken = "ledger_rolled_back" THEN then.holder ELSE s.holder]

Step(s, n, x) == LET after == Stepped(s, n, x) IN [after EXCEPT !.alive = @ \cup {n}]

Write(x) == /\ Len(log) < MaxLog
            /\ log' = Append(log, x)
            /\ past' = Append(past, Step(Now, Len(log) + 1, x))
WriteBoth(x, y) == LET between == Step(Now, Len(log) + 1, x) IN
            /\ Len(log) + 2 <= MaxLog
            /\ log' = log \o <<x, y>>
            /\ past' = past \o <<between, Step(between, Len(log) + 2, y)>>

Me(p) == <<p, life[p]>>
Lives(who) == who # <<>> /\ life[who[1]] = who[2]
Left == {e \in Effects : Now.state[e] = "intended" /\ ~Lives(Now.holder[e])}   \* intended by somebody who is gone
Unknown(e) == e \in Left \/ Now.state[e] = "unknown"
Unsettled == {"intended", "unknown"}

Newest(turns) == CHOOSE t \in turns : \A u \in turns : u <= t
Floor(s) == IF s.view = {} THEN {} ELSE {Newest(s.view)}
Instructions == {1}   \* the first turn is the instructions: never covered
Coverable(s) == (s.view \ Instructions) \ (IF Broken = "no_floor" THEN {} ELSE Floor(s))

-----------------------------------------------------------------------------
(* Saying, compacting *)

Say(p) == /\ Write([kind |-> "turn"])
          /\ act' = [name |-> "Say", p |-> p]
          /\ UNCHANGED <<doing, life, world, asked, back>>

Begin(p) == /\ doing[p] = Idle /\ Now.open = 0 /\ Coverable(Now) # {}
            /\ Write([kind |-> "begun", gen |-> Now.last + 1, by |-> Me(p)])
            /\ doing' = [doing EXCEPT ![p] = [is |-> "compacting", gen |-> Now.last + 1, parent |-> Now.gen, epoch |-> Now.epoch,
                                              covers |-> Coverable(Now)]]
            /\ act' = [name |-> "Begin", p |-> p]
            /\ UNCHANGED <<life, world, asked, back>>

(* Somebody else, or a later life of the same process, takes the holder for dead: rightly or not. *)
Close(p) == /\ Now.open # 0 /\ Now.by # Me(p)
            /\ LET closed == [kind |-> "aborted", gen |-> Now.open] IN
               IF Left = {} THEN Write(closed) ELSE WriteBoth(closed, [kind |-> "unknown", of |-> Left])
            /\ act' = [name |-> "Close", p |-> p]
            /\ UNCHANGED <<doing, life, world, asked, back>>

(* The summarizer may have received all that is covered, or have lost the first of it on the way. *)
MayCommit(p, received) ==
  LET plan == doing[p] IN
  /\ plan.is = "compacting"
  /\ Broken = "not_received" \/ plan.covers \subseteq received
  /\ Broken = "no_compare" \/ (Now.open = plan.gen /\ Now.gen = plan.parent /\ Now.epoch = plan.epoch)

Commit(p) == \E lost \in {{}, {CHOOSE t \in doing[p].covers : TRUE}} :
  /\ MayCommit(p, doing[p].covers \ lost)
  /\ Broken # "two_steps"
  /\ Write([kind |-> "committed", gen |-> doing[p].gen, parent |-> doing[p].parent, covered |-> doing[p].covers,
            received |-> doing[p].covers \ lost])
  /\ doing' = [doing EXCEPT ![p] = Idle]
  /\ act' = [name |-> "Commit", p |-> p, whole |-> lost = {}]
  /\ UNCHANGED <<life, world, asked, back>>

Remove(p) == /\ Broken = "two_steps" /\ doing[p].is = "compacting" /\ MayCommit(p, doing[p].covers)
             /\ Write([kind |-> "removed", covered |-> doing[p].covers])
             /\ act' = [name |-> "Remove", p |-> p]
             /\ UNCHANGED <<doing, life, world, asked, back>>

GiveUp(p) == /\ doing[p].is = "compacting" /\ Now.open = doing[p].gen /\ Now.by = Me(p)
             /\ Write([kind |-> "aborted", gen |-> Now.open])
             /\ doing' = [doing EXCEPT ![p] = Idle]
             /\ act' = [name |-> "GiveUp", p |-> p]
             /\ UNCHANGED <<life, world, asked, back>>

-----------------------------------------------------------------------------
(* Going back *)

Checkpoint(p) == /\ Now.open = 0 \/ Broken = "checkpoint_in_flight"
                 /\ Write([kind |-> "checkpoint", inFlight |-> Now.open # 0])
                 /\ act' = [name |-> "Checkpoint", p |-> p]
                 /\ UNCHANGED <<doing, life, world, asked, back>>

Taken == {n \in 1..Len(log) : log[n].kind = "checkpoint"}
Eligible(n) == /\ Broken = "recover_below" \/ n > Now.barrier
               /\ Broken = "checkpoint_in_flight" \/ ~log[n].inFlight

Recover(p) == LET fit == {n \in Taken : Eligible(n)} IN
  /\ Now.open = 0
  /\ back' = IF fit # {} THEN [to |-> "checkpoint", seq |-> Newest(fit), barrier |-> Now.barrier, inFlight |-> log[Newest(fit)].inFlight]
             ELSE [to |-> "replay", seq |-> Now.barrier, barrier |-> Now.barrier, inFlight |-> FALSE]
  /\ IF Left = {} THEN back' # back /\ UNCHANGED <<log, past>> ELSE Write([kind |-> "unknown", of |-> Left])
  /\ act' = [name |-> "Recover", p |-> p]
  /\ UNCHANGED <<doing, life, world, asked>>

Over(n) == {e \in Effects : Now.intent[e] > n}
Rollback(p, n) == /\ Now.open = 0 /\ At(n).open = 0 /\ n < Len(log) /\ n \in Now.alive
                  /\ Broken = "rollback_ungated" \/ \A e \in Over(n) : Now.state[e] \notin Unsettled
                  /\ Write([kind |-> "rollback", to |-> n])
                  /\ act' = [name |-> "Rollback", p |-> p, to |-> n]
                  /\ UNCHANGED <<doing, life, world, asked, back>>

-----------------------------------------------------------------------------
(* Effects that may not be repeated *)

MaySend(e) == \/ Now.state[e] \in {"none", "not_happened"}
              \/ Broken = "unknown_retried" /\ Unknown(e)

Intend(p, e) == /\ doing[p] = Idle /\ MaySend(e) /\ Broken # "intent_after"
                /\ Write([kind |-> "intent", e |-> e, by |-> Me(p)])
                /\ doing' = [doing EXCEPT ![p] = [is |-> "sending", e |-> e]]
                /\ act' = [name |-> "Intend", p |-> p, e |-> e]
                /\ UNCHANGED <<life, world, asked, back>>

SendFirst(p, e) == /\ doing[p] = Idle /\ MaySend(e) /\ Broken = "intent_after"
                   /\ doing' = [doing EXCEPT ![p] = [is |-> "sending", e |-> e]]
                   /\ world' = [world EXCEPT ![e] = @ + 1]
                   /\ act' = [name |-> "SendFirst", p |-> p, e |-> e]
                   /\ UNCHANGED <<log, past, life, asked, back>>

Send(p) == /\ doing[p].is = "sending" /\ Broken # "intent_after"
           /\ world' = [world EXCEPT ![doing[p].e] = @ + 1]
           /\ doing' = [doing EXCEPT ![p] = [is |-> "sent", e |-> doing[p].e]]
           /\ act' = [name |-> "Send", p |-> p]
           /\ UNCHANGED <<log, past, life, asked, back>>

Settle(p) == /\ doing[p].is = "sent"
             /\ Write([kind |-> "settled", e |-> doing[p].e])
             /\ doing' = [doing EXCEPT ![p] = Idle]
             /\ act' = [name |-> "Settle", p |-> p]
             /\ UNCHANGED <<life, world, asked, back>>

Resolve(p, e, as) == /\ Unknown(e)
                     /\ Write([kind |-> "resolved", e |-> e, as |-> as])
                     /\ asked' = IF as = "not_happened" THEN [asked EXCEPT ![e] = @ + 1] ELSE asked
                     /\ act' = [name |-> "Resolve", p |-> p, e |-> e, as |-> as]
                     /\ UNCHANGED <<doing, life, world, back>>

Crash(p) == /\ life[p] < MaxCrashes /\ doing[p] # Idle
            /\ life' = [life EXCEPT ![p] = @ + 1]
            /\ doing' = [doing EXCEPT ![p] = Idle]
            /\ act' = [name |-> "Crash", p |-> p]
            /\ UNCHANGED <<log, past, world, asked, back>>

-----------------------------------------------------------------------------
Init == /\ log = <<>> /\ past = <<Nothing>> /\ back = Nowhere /\ act = [name |-> "Init"]
        /\ doing = [p \in Procs |-> Idle] /\ life = [p \in Procs |-> 0]
        /\ world = [e \in Effects |-> 0] /\ asked = [e \in Effects |-> 0]

Next == \E p \in Procs :
  \/ Say(p) \/ Begin(p) \/ Close(p) \/ GiveUp(p) \/ Checkpoint(p) \/ Recover(p) \/ Send(p) \/ Settle(p) \/ Crash(p)
  \/ doing[p].is = "compacting" /\ (Commit(p) \/ Remove(p))
  \/ \E n \in 1..Len(log) : Rollback(p, n)
  \/ \E e \in Effects : Intend(p, e) \/ SendFirst(p, e) \/ \E as \in {"done", "not_happened"} : Resolve(p, e, as)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The four promises, and what they stand on *)

Commits == {n \in 1..Len(log) : log[n].kind = "committed"}

NothingPromisedIsSummarisedAway == \A n \in Commits :
  LET x == log[n] before == At(n - 1) IN
  /\ x.covered \subseteq x.received                               \* nobody summarised what was never received
  /\ x.covered \cap (Floor(before) \cup Instructions) = {}        \* the floor and the instructions stay word for word

NoPastThatACompactionHasOvertaken ==
  back.to = "checkpoint" => back.seq > back.barrier /\ ~back.inFlight

NothingRepeatedUnasked == \A e \in Effects :
  /\ world[e] <= 1 + asked[e]                                     \* nothing is done twice without somebody deciding so
  /\ world[e] > 0 => \E n \in 1..Len(log) : log[n].kind = "intent" /\ log[n].e = e   \* intent first

RollbackOnlyOverWhatIsKnown == \A n \in 1..Len(log) : log[n].kind = "rollback" =>
  \A e \in Effects : At(n - 1).intent[e] > log[n].to => At(n - 1).state[e] \notin Unsettled

NoHalfCompactionReadAsWhole == \A n \in 1..Len(past) :
  LET s == past[n] IN s.view \cup s.behind = s.said /\ s.view \cap s.behind = {}     \* shown or stood for, each turn once

GenerationsFollowEachOther == \A n \in Commits :
  /\ log[n].parent = At(n - 1).gen /\ At(n - 1).open = log[n].gen
  /\ \A m \in Commits : log[m].gen = log[n].gen => m = n

LogOnlyGrows == [][Len(log') >= Len(log) /\ SubSeq(log', 1, Len(log)) = log]_log

(* What a process has begun blocks nothing for ever: whatever is open, somebody may close it. *)
NothingBlocksForEver == Now.open # 0 /\ Len(log) + 2 <= MaxLog => \E p \in Procs : ENABLED Close(p) \/ ENABLED GiveUp(p)

(* Traps: TLC must be able to break each of these, else the model would hold for want of anything happening. *)
NeverTwoGenerations == Cardinality(Commits) < 2
NeverFenced == ~\E p \in Procs : doing[p].is = "compacting" /\ Now.open # doing[p].gen
NeverBackToACheckpoint == back.to # "checkpoint"
NeverGuarded == ~\E n \in 1..Len(log) : log[n].kind = "rollback" /\ \E e \in Effects : At(n - 1).state[e] = "done" /\ At(n - 1).intent[e] > log[n].to
NeverSentTwice == \A e \in Effects : world[e] < 2
=============================================================================

"""Going back, branching off, coming back after a fault, and reading what left the view."""

import lineal

POLICY = lineal.Policy(trigger=700, ceiling=1_000, target=350, floor_turns=2)


def talk(session, first, last):
    for n in range(first, last):
        session.append({"role": "user", "content": f"Step {n}: measure wall {n}, it must carry {n}00 kg."}, id=f"u{n}")
        session.append({"role": "assistant", "content": f"Wall {n} was measured twice; it carries {n}00 kg. " * 2}, id=f"a{n}")


with lineal.connect("memory:") as store:
    session = store.session("survey", policy=POLICY)
    talk(session, 1, 6)
    early = session.checkpoint("five walls")
    talk(session, 6, 12)
    print(session.compact())  # the view shrinks; the log does not
    print(len(session.turns()), "turns in the log,", len(session.view().turns), "of them verbatim in the view")

    # What left the view is still there, word for word, under the handle that the summary shows.
    handle = session.view().handles[0]
    print(handle, "stands for", [turn.id for turn in session.expand(handle)][:3], "...")
    print("found:", session.search("wall 3")[0].id)

    # After a fault: the checkpoint lies before the compaction, so recovery replays the compaction's own output instead.
    found = session.recover()
    print(f"recover: {found.target} from seq {found.seq}")

    # On purpose: a rollback is one more entry, so it may go back before the compaction. Nothing is deleted.
    plan = session.rollback(early, dry_run=True)
    back = session.rollback(early)
    assert plan.left_behind == back.left_behind  # a dry run says what the real one does
    print(f"rollback: the view of seq {back.target} at the new head {back.seq}, {len(back.left_behind)} turns left behind")

    # A fork begins as the session was at a seq, and goes its own way.
    child = session.fork("survey-metric", at=early)
    talk(child, 20, 22)
    print("fork:", child.name, len(child.turns()), "turns; parent:", len(session.turns()))
    print("verified:", [report.verdict.name for report in store.verify()])

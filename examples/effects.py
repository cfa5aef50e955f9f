"""Effects: what is done to the world is written down before it is done, and nothing is done twice by accident."""

import lineal

world = []  # stands for the outside: a mail server, a bank, a database


def send(to):
    world.append(to)
    return f"message {len(world)}"


def send_and_lose_the_answer(to):
    world.append(to)
    raise TimeoutError("no answer in 30 s")


with lineal.connect("memory:") as store:
    session = store.session("mailer")
    session.append({"role": "user", "content": "Tell ops and sales that the release is out."}, id="u1")
    before = session.checkpoint("before the mails")

    # Done once, however often it is asked for under its key.
    for attempt in (1, 2):
        with session.effect("send_mail", {"to": "ops"}, key="release-mail:ops") as effect:
            if effect.pending:
                effect.settle(send("ops"))
        print(f"ops, asked for the {'first' if attempt == 1 else 'second'} time: {effect.result}, the world has {world}")

    # A clean refusal is no effect: the same key may be sent again.
    with session.effect("send_mail", {"to": "board"}, key="release-mail:board") as effect:
        effect.no_effect("the address does not exist")
    print("board:", session.ledger()[-1].state)

    # An exception, a timeout or a kill leaves the outcome unknown, and unknown is never sent again by itself.
    try:
        with session.effect("send_mail", {"to": "sales"}, key="release-mail:sales") as effect:
            effect.settle(send_and_lose_the_answer("sales"))
    except TimeoutError as error:
        print(f"sales: {error}; the ledger says {session.status().unknown_effects}")
    try:
        with session.effect("send_mail", {"to": "sales"}, key="release-mail:sales"):
            raise AssertionError("never reached: entering refuses")
    except lineal.UnsafeEffectError as refusal:
        print("asked again:", refusal.reason)

    # Nor may a rollback forget it. Somebody looks into the world and says what was found; then the rollback is allowed.
    print("rollback would be refused over", session.rollback(before, dry_run=True).refused)
    session.resolve_effect("release-mail:sales", "happened", note="it is in the outbox of the mail server")
    back = session.rollback(before)
    print("rolled back:", back.verdict.reason, back.guarded)

    # The ledger survives the rollback: the agent comes to the same effect again, and nothing is sent.
    with session.effect("send_mail", {"to": "ops"}, key="release-mail:ops") as effect:
        assert not effect.pending
    print(f"ops, after the rollback: {effect.result}, the world has {world}")
    print(session.messages()[-1]["content"])

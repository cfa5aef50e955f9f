"""A chat loop with one tool, whose memory is lineal. `model` stands in for a real one: it notes what a user says, then answers."""

import json
import uuid

import lineal


def model(messages):
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"Noted: {messages[-1]['content']}. What comes next?"}
    function = {"name": "note", "arguments": json.dumps({"text": messages[-1]["content"]})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{uuid.uuid4().hex[:8]}", "function": function}]}


def run_tools(session):
    for turn in session.view().turns:
        for call in turn.message.get("tool_calls") or ():
            if call["id"] in session.status().open_calls:
                with session.effect(call["function"]["name"], json.loads(call["function"]["arguments"]), call=call["id"]) as effect:
                    if effect.pending:  # False: it was done before, and `result` is what came of it
                        effect.settle(f"line {len(session.ledger())}")  # here the world is changed
                session.append({"role": "tool", "tool_call_id": call["id"], "content": effect.result or "done before"})


def answer(session):
    """From wherever the log stands to the next answer: the same way after a crash as after a message."""
    while session.messages()[-1]["role"] != "assistant" or session.status().open_calls:
        run_tools(session)
        session.maybe_compact()  # below the trigger it does nothing
        session.append(model(session.messages()))
    return session.messages()[-1]["content"]


with lineal.connect("chat.db") as store:
    chat = store.session("chat", policy=lineal.Policy(trigger=600, ceiling=900, target=300, floor_turns=4))
    print("recovered:", chat.recover().why)
    for n in range(len(chat.ledger()), len(chat.ledger()) + 12):
        chat.append({"role": "user", "content": f"Part {n} of the delivery was counted and put into hall {n % 3}."}, id=f"part-{n}")
        print(answer(chat), chat.status().tokens, "tokens shown")

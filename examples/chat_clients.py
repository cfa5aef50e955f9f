"""One loop, two providers: an OpenAI-compatible client and Anthropic's, on one memory. Offline: the model is a server on loopback."""

import anthropic
import openai

import lineal
from lineal.messages import arguments_of, parse
from lineal.testing.model_server import ModelServer

PARAMETERS = {"type": "object", "properties": {"parcel": {"type": "string"}}, "required": ["parcel"]}
FOR_OPENAI = [{"type": "function", "function": {"name": "deliver", "parameters": PARAMETERS}}]
FOR_ANTHROPIC = [{"name": "deliver", "input_schema": PARAMETERS}]


def ask_openai(client, session):
    answer = client.chat.completions.create(model="m", messages=session.messages("openai"), tools=FOR_OPENAI)
    return answer.choices[0].message.model_dump(exclude_none=True)


def ask_anthropic(client, session):
    answer = client.messages.create(model="m", max_tokens=500, messages=session.messages("anthropic"), tools=FOR_ANTHROPIC)
    return {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}


def run_tools(session):
    for turn in session.view().turns:
        for call in parse(turn.message).calls:
            if call.id in session.status().open_calls:
                with session.effect(call.tool, arguments_of(turn.message, call.id), call=call.id) as effect:
                    if effect.pending:  # False: it was done before, and `result` is what came of it
                        effect.settle("handed over")  # here the world is changed
                session.append({"role": "tool", "tool_call_id": call.id, "content": effect.result})


def turn(ask, client, session, text, id):
    """From what a user says to the answer: the same lines after a crash."""
    session.append({"role": "user", "content": text}, id=id)
    while session.view().turns[-1].author != "assistant" or session.status().open_calls:
        run_tools(session)
        session.maybe_compact()
        session.append(ask(client, session))
    return session.view().turns[-1]


def model(messages):
    """Stands for a real one, behind both protocols."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"It was {last['content']}."}
    arguments = f'{{"parcel": "{last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]}"}}'
    function = {"name": "deliver", "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": f"call_{len(messages)}", "type": "function", "function": function}]}


policy = lineal.Policy(trigger=600, ceiling=900, target=300, floor_turns=4)
with ModelServer(model) as server, lineal.connect("memory:") as store:
    session = store.session("post", policy=policy)
    clients = (
        (ask_openai, openai.OpenAI(base_url=server.url, api_key="none")),
        (ask_anthropic, anthropic.Anthropic(base_url=server.root, api_key="none")),
    )
    for n in range(12):  # the same conversation, now with one provider, now with the other
        ask, client = clients[n % 2]
        answer = turn(ask, client, session, f"parcel {n} for hall {n % 3}, which is to be handed over by hand", id=f"u{n}")
    print("answered:", answer.message["content"] if isinstance(answer.message["content"], str) else answer.message["content"][0]["text"])
    print("delivered:", len(session.ledger()), "shown:", session.status().tokens, "tokens, generation", session.status().generation)

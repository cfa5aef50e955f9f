"""The model on loopback, asked by the providers' own clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from lineal.testing.adapters import Courier
from lineal.testing.model_server import ModelServer

ASK = "Please deliver books."
TOOL = {"type": "object", "properties": {"parcel": {"type": "string"}}}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(Courier()) as found:
        yield found


def test_openai_chat_completions(server: ModelServer) -> None:
    client = openai.OpenAI(base_url=server.url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": ASK}]
    answer = client.chat.completions.create(model="m", messages=messages)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "deliver" and answer.choices[0].finish_reason == "tool_calls" and answer.usage.total_tokens > 2
    messages += [answer.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "there"}]
    assert client.chat.completions.create(model="m", messages=messages).choices[0].message.content == "Done: there"


def test_openai_responses(server: ModelServer) -> None:
    client = openai.OpenAI(base_url=server.url, api_key="none")
    first = client.responses.create(model="m", input=ASK, instructions="Be brief.")
    (call,) = (item for item in first.output if item.type == "function_call")
    items: list[Any] = [
        {"role": "user", "content": ASK},
        *(item.model_dump(exclude_none=True) for item in first.output),
        {"type": "function_call_output", "call_id": call.call_id, "output": "there"},
    ]
    assert client.responses.create(model="m", input=items).output_text == "Done: there"


def test_anthropic_messages(server: ModelServer) -> None:
    client = anthropic.Anthropic(base_url=server.root, api_key="none")
    messages: list[Any] = [{"role": "user", "content": ASK}]
    tools: list[Any] = [{"name": "deliver", "input_schema": TOOL}]
    first = client.messages.create(model="m", max_tokens=99, messages=messages, tools=tools, system="Be brief.")
    (call,) = (block for block in first.content if block.type == "tool_use")
    assert first.stop_reason == "tool_use" and call.input == {"parcel": "books"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "there"}
    messages += [{"role": "assistant", "content": [b.model_dump() for b in first.content]}, {"role": "user", "content": [result]}]
    assert client.messages.create(model="m", max_tokens=99, messages=messages, tools=tools).content[0].text == "Done: there"
    assert [body["messages"][0]["content"] for body in server.asked] == [ASK, ASK]


def test_what_it_does_not_speak_is_refused(server: ModelServer) -> None:
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    with pytest.raises(openai.BadRequestError, match="streams are not spoken here"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": ASK}], stream=True)
    with pytest.raises(openai.NotFoundError, match="no protocol"):
        client.embeddings.create(model="m", input="word")

"""A run of the OpenAI Agents SDK that dies inside its tool, and goes on. Offline: the model is a server on loopback."""

import asyncio
import tempfile
from pathlib import Path

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

import lineal
from lineal.adapters.openai_agents import LinealSession
from lineal.testing.model_server import ModelServer

set_tracing_disabled(True)
folder = tempfile.TemporaryDirectory()
letterbox = []


class PowerCut(BaseException):
    """The process is gone."""


def mail(to: str) -> str:
    """Send the report."""
    letterbox.append(to)
    if len(letterbox) == 1:
        raise PowerCut
    return f"sent to {to}"


def model(messages):
    """Stands for a real one: asked to mail it calls the tool, told of a result it says so."""
    last = messages[-1]
    if last["role"] == "user" and "mail" in last["content"].lower():
        call = {"id": "call_1", "type": "function", "function": {"name": "mail", "arguments": '{"to": "ann"}'}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    return {"role": "assistant", "content": f"I was told: {last['content'][:60]}"}


async def work(url):
    """One life of the worker: the same lines after a crash as before it."""
    with lineal.connect(Path(folder.name) / "agent.db") as store:
        memory = LinealSession("report", store)
        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            agent = Agent(name="clerk", tools=[memory.tool(mail)], model=OpenAIResponsesModel("m", client))
            fresh = await memory.say("Mail the report to Ann.", id="u1")
            if fresh or await memory.resume():
                result = await Runner.run(agent, [], session=memory, hooks=memory.hooks)
                print("answer:", result.final_output)
        print("ledger:", [(row.tool, row.state) for row in memory.lineal.ledger()])


with ModelServer(model) as server:
    try:
        asyncio.run(work(server.url))
    except PowerCut:
        print("killed in the tool")
    asyncio.run(work(server.url))
print("in the letterbox:", letterbox)
folder.cleanup()

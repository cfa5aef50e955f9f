"""A Pydantic AI agent that dies inside its tool, and goes on: nothing lost, nothing sent twice. Needs the extra `pydantic-ai`."""

import tempfile
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import lineal
from lineal.adapters.pydantic_ai import LinealCapability

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


def agent(*answers):
    """Another process: its own connection, and a model that says what it was told to say."""
    store, waiting = lineal.connect(Path(folder.name) / "agent.db"), iter(answers)
    memory = LinealCapability(store)
    model = FunctionModel(lambda messages, info: ModelResponse(parts=[next(waiting)]))
    return store, memory, Agent(model, tools=[mail], capabilities=[memory])


store, memory, first = agent(ToolCallPart("mail", {"to": "ann"}, "call_1"))
try:
    first.run_sync("Mail the report to Ann.", run_id="u1", conversation_id="report")
except PowerCut:
    store.close()

# Another process. It cannot know whether the mail went out, so it does not send it again; a person finds out, and says so.
store, memory, second = agent(TextPart("I do not know whether it was sent."), TextPart("It was sent."))
print("told:", second.run_sync(message_history=memory.history("report"), conversation_id="report").output)
session = memory.session("report")
print("ledger:", [(row.tool, row.state) for row in session.ledger()])
session.resolve_effect(session.ledger()[0].key, "happened", note="ann has it")
print("then:", second.run_sync("Ann has it.", run_id="u2", conversation_id="report").output)
print("in the letterbox:", letterbox)
store.close()
folder.cleanup()

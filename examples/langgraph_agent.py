"""A LangGraph agent that dies inside its tool, and goes on: nothing lost, nothing sent twice. Needs the extra `langchain`."""

import tempfile
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

import lineal
from lineal.adapters.langchain import LinealMiddleware
from lineal.adapters.langgraph import LinealSaver

folder = tempfile.TemporaryDirectory()
letterbox = []


class Model(GenericFakeChatModel):
    """Stands for a real chat model: it says what it was told to say."""

    def bind_tools(self, tools, **kwargs):
        return self


class PowerCut(BaseException):
    """The process is gone."""


def mail(to: str) -> str:
    """Send the report."""
    letterbox.append(to)
    if len(letterbox) == 1:
        raise PowerCut
    return f"sent to {to}"


def agent(*answers):
    store = lineal.connect(Path(folder.name) / "agent.db")
    made = create_agent(Model(messages=iter(answers)), [mail], middleware=[LinealMiddleware(store)], checkpointer=LinealSaver(store))
    return store, made


thread = {"configurable": {"thread_id": "report"}}
call = AIMessage("", tool_calls=[{"name": "mail", "args": {"to": "ann"}, "id": "call_1"}])
store, first = agent(call)
try:
    first.invoke({"messages": [HumanMessage("Mail the report to Ann.", id="u1")]}, thread, durability="sync")
except PowerCut:
    store.close()

# Another process. It cannot know whether the mail went out, so it does not send it again; a person finds out, and says so.
store, second = agent(AIMessage("I do not know whether it was sent."), AIMessage("It was sent."))
print("told:", second.invoke(None, thread)["messages"][-1].text)
session = store.session("report")
print("ledger:", [(row.tool, row.state) for row in session.ledger()])
session.resolve_effect(session.ledger()[0].key, "happened", note="ann has it")
print("then:", second.invoke({"messages": [HumanMessage("Ann has it.", id="u2")]}, thread)["messages"][-1].text)
print("in the letterbox:", letterbox)
store.close()
folder.cleanup()

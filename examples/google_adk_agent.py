"""A Google ADK agent loses its process inside a tool; another process goes on with the run. The letter is sent once, and the model is
told that nobody knows whether it arrived."""

import asyncio
import tempfile
import warnings
from pathlib import Path

from google.adk.agents import Agent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai.types import Content, FunctionCall, Part

import lineal
from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_guard import LinealEffectPlugin
from lineal.adapters.google_adk_runs import say
from lineal.adapters.google_adk_view import LinealViewPlugin

warnings.simplefilter("ignore")  # ADK tells that its resumability is new
folder = tempfile.TemporaryDirectory()
letterbox = []


class PowerCut(BaseException):
    """The process is gone."""


class Model(BaseLlm):
    """Stands for a real one: it calls the tool when it is asked to mail, and says what it was told."""

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.text and "mail" in last.text.lower():
            part = Part(function_call=FunctionCall(name="mail", args={"to": "ann"}))
        else:
            told = last.function_response.response if last.function_response else {}
            part = Part(text=f"I was told: {str(told.get('result', told.get('error')))[:60]}")
        yield LlmResponse(content=Content(role="model", parts=[part]))


def mail(to: str) -> str:
    """Send the report."""
    letterbox.append(to)
    if len(letterbox) == 1:
        raise PowerCut
    return f"sent to {to}"


async def life():
    with lineal.connect(Path(folder.name) / "agent.db") as store:
        service = LinealSessionService(store)
        plugins = [LinealEffectPlugin(service), LinealViewPlugin(service)]
        agent = Agent(name="clerk", model=Model(model="m"), tools=[mail])
        app = App(name="ops", root_agent=agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=True))
        runner = Runner(app=app, session_service=service)
        async for event in say(runner, "Mail the report to Ann.", user_id="ann", session_id="1", id="order-1"):
            if event.content and event.content.parts[0].text:
                print("answer:", event.content.parts[0].text)
        session = service.lineal("ops", "ann", "1")
        print("ledger:", [(row.tool, row.state) for row in session.ledger()])
        print("said:  ", [turn.author for turn in session.turns()])


try:
    asyncio.run(life())
except PowerCut:
    print("killed in the tool")
asyncio.run(life())  # the same message, under the same id: the run is gone on with
asyncio.run(life())  # once more: it was answered, so nothing is asked and nothing is done
print("in the letterbox:", letterbox)
folder.cleanup()

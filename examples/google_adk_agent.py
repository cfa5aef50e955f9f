"""An ADK agent that dies inside its tool, and goes on. Offline: the model is a class. Needs the extra `google-adk`."""

import asyncio
import tempfile
from pathlib import Path

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai.types import Content, FunctionCall, Part

import lineal
from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_guard import LinealEffectPlugin

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


async def life(text):
    with lineal.connect(Path(folder.name) / "agent.db") as store:
        service = LinealSessionService(store)
        agent = Agent(name="clerk", model=Model(model="m"), tools=[mail])
        runner = Runner(app_name="ops", agent=agent, session_service=service, plugins=[LinealEffectPlugin(service)])
        if await service.get_session(app_name="ops", user_id="ann", session_id="1") is None:
            await service.create_session(app_name="ops", user_id="ann", session_id="1")
        message = Content(role="user", parts=[Part(text=text)])
        async for event in runner.run_async(user_id="ann", session_id="1", new_message=message):
            if event.content and event.content.parts[0].text:
                print("answer:", event.content.parts[0].text)
        print("ledger:", [(row.tool, row.state) for row in service.lineal("ops", "ann", "1").ledger()])


try:
    asyncio.run(life("Mail the report to Ann."))
except PowerCut:
    print("killed in the tool")
asyncio.run(life("Please mail the report to Ann."))
print("in the letterbox:", letterbox)
folder.cleanup()

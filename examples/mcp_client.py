"""An agent's side of `lineal mcp`: it searches its memory, and the server is killed in the middle of an effect. Needs the extra `mcp`."""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import lineal

folder = tempfile.TemporaryDirectory()
place = Path(folder.name) / "agent.db"
server = StdioServerParameters(command=sys.executable, args=["-m", "lineal", "mcp", str(place)])

with lineal.connect(place) as store:
    session = store.session("agent")
    session.append({"role": "user", "content": "Invoice 17 is to be paid by the 14th, never twice."}, id="u1")


async def first():
    async with Client(server) as client:
        found = await client.call_tool("context_search", {"query": "invoice 17"})
        print("found:", found.structured_content["hits"][0]["text"])
        begun = await client.call_tool("effect_begin", {"tool": "pay", "args": {"invoice": 17}, "key": "invoice:17"})
        print("may it be paid?", begun.structured_content["go"])
        # ... and here the process ends: nobody knows whether it was paid.


async def second():
    async with Client(server) as client:
        again = await client.call_tool("effect_begin", {"tool": "pay", "args": {"invoice": 17}, "key": "invoice:17"})
        print("and now?", again.content[0].text.split(": ", 2)[2][:90] if again.is_error else again.structured_content)


asyncio.run(first())
asyncio.run(second())
with lineal.connect(place) as store:
    store.session("agent").resolve_effect("invoice:17", "happened", note="it is on the bank's statement")
asyncio.run(second())
folder.cleanup()

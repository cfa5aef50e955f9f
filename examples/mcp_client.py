"""An agent's memory over MCP: read back what a summary stands for, and do something to the world once, whatever ends in between.

Needs the extra: pip install 'lineal[mcp]'. Runs offline; the server is started by the client, on stdio.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import lineal

STORE = Path(tempfile.mkdtemp()) / "agent.db"
outbox = []  # stands for the world: a mail server


def fill():
    """What an agent of some other program has said before."""
    with lineal.connect(STORE) as store:
        session = store.session("harbour", policy=lineal.Policy(trigger=900, target=300, floor_turns=2, summary_max_tokens=120))
        for n in range(8):
            session.append({"role": "user", "content": f"When does ferry {n} leave? " + "The tide is low. " * 9}, id=f"u{n}")
            session.append({"role": "assistant", "content": f"At {n + 9} sharp. " + "Low water then. " * 9}, id=f"a{n}")
        session.compact()


def server(*options):
    command = ["-m", "lineal", "mcp", str(STORE), *options]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))))


async def ask(client, name, /, **arguments):
    answer = await client.call_tool(name, arguments)
    return answer.content[0].text if answer.is_error else answer.structured_content


async def read_back(client):
    memory = await ask(client, "context_status")
    print("summaries in the view:", memory["summaries"])
    told = await ask(client, "compaction_explain")
    print(f"made because {told['generation']['why']}; {told['readable']} of its turns can be read back")
    found = (await ask(client, "context_search", query="ferry 3", limit=1))["hits"][0]
    page = await ask(client, "context_fetch", handle=found["handle"])
    print("exactly as it was said:", page["turns"][0]["message"]["content"][:25])


async def mail(client, to):
    """Once, whatever happens to us or to the server."""
    begun = await ask(client, "effect_begin", tool="send_mail", args={"to": to}, key=f"mail:{to}")
    if isinstance(begun, str):
        return begun
    if not begun["begun"]:
        return f"not sent again: {begun['outcome']}"
    outbox.append(to)
    settled = await ask(client, "effect_settle", key=f"mail:{to}", state="done", outcome=f"message {len(outbox)}")
    return f"sent: {settled['outcome']}"


async def main():
    fill()
    async with server() as client:
        await read_back(client)
        print(await mail(client, "ops"))
        print(await mail(client, "ops"))
        # The agent is cut off between begin and settle: the next one must not take it for done, nor for not done.
        await ask(client, "effect_begin", tool="send_mail", args={"to": "sales"}, key="mail:sales")
    async with server("--operator") as client:
        print(await mail(client, "sales"))
        await ask(client, "effect_resolve", key="mail:sales", finding="not_happened", note="it is not in the outbox")
        print(await mail(client, "sales"))
    assert outbox == ["ops", "sales"]


asyncio.run(main())

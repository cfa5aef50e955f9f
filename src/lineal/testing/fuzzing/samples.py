"""Small sound things to begin from: a transcript of each format, messages of each dialect, one entry of each kind."""

from __future__ import annotations

from typing import Any

from lineal.entries import (
    Anchor,
    Call,
    CheckpointTaken,
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectAttached,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Evicted,
    Forked,
    Holder,
    HostRecord,
    Lease,
    Node,
    Note,
    PackAborted,
    PackBegun,
    PackCommitted,
    PackFinished,
    Piece,
    Pin,
    Pinned,
    PruneBegun,
    PruneFinished,
    PurgeBegun,
    PurgeFinished,
    Result,
    RolledBack,
    Run,
    Segment,
    Stub,
    Suspended,
    TurnAppended,
    Unknown,
    Unpinned,
    Usage,
)

AT = "2026-02-07T04:23:03.483Z"


def _function(id: str, name: str = "look", arguments: str = '{"n": 1}') -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


# --- messages ----------------------------------------------------------------------------------------------------------

OPENAI: tuple[Any, ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "When is low water?"},
    {"role": "assistant", "content": None, "tool_calls": [_function("c1"), _function("c2", "Bash", '{"command": "git push"}')]},
    {"role": "tool", "tool_call_id": "c1", "content": "21:51"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "Error: refused"}], "status": "pending"},
    {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": "this"}],
    },
    {"role": "assistant", "content": "At 21:51.", "refusal": None, "name": "clerk"},
    {"role": "assistant", "content": "", "function_call": {"name": "tide", "arguments": "{}"}},
)
RESPONSES: tuple[Any, ...] = (
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What day is it?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
    {"type": "function_call", "id": "fc_1", "call_id": "f1", "name": "exec_command", "arguments": '{"cmd": "date"}'},
    {"type": "function_call_output", "call_id": "f1", "output": "Process exited with code 0\nOutput:\nThu"},
    {"type": "custom_tool_call", "call_id": "f2", "name": "apply_patch", "input": "*** Begin Patch"},
    {"type": "custom_tool_call_output", "call_id": "f2", "output": [{"type": "input_text", "text": "done"}]},
    {"type": "mcp_approval_request", "id": "ap1", "name": "ask", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "ap1", "approve": True},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Thursday."}]},
)
ANTHROPIC: tuple[Any, ...] = (
    {"role": "user", "content": [{"type": "text", "text": "List it.", "cache_control": {"type": "ephemeral"}}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"path": "a"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}], "is_error": True}],
    },
    {
        "role": "user",
        "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "t"}],
    },
    {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "README.md"}]},
)
DIALOGUES = {"openai": OPENAI, "responses": RESPONSES, "anthropic": ANTHROPIC}


# --- transcripts -------------------------------------------------------------------------------------------------------


def _claude(kind: str, n: int, **fields: Any) -> dict[str, Any]:
    parent = f"id{n - 1}" if n else None
    return {"type": kind, "uuid": f"id{n}", "parentUuid": parent, "sessionId": "s1", "isSidechain": False, "timestamp": AT, **fields}


def _claude_code() -> list[Any]:
    user, made, result, *_, last = ANTHROPIC
    return [
        {"type": "summary", "summary": "before", "leafUuid": "id9"},
        _claude("user", 0, message=user),
        _claude("assistant", 1, message={"id": "m1", **made, "content": made["content"][:1]}),
        _claude("assistant", 2, message={"id": "m1", **made, "content": made["content"][1:]}),
        _claude("user", 3, message=result, toolUseResult={"stdout": "ok"}),
        _claude(
            "system",
            4,
            subtype="compact_boundary",
            compactMetadata={"trigger": "auto", "preTokens": 9, "preservedMessages": {"uuids": ["id1"]}},
        ),
        _claude("user", 5, message={"role": "user", "content": "In brief: all is well."}, isCompactSummary=True),
        _claude("system", 6, subtype="microcompact_boundary", microcompactMetadata={"tokensSaved": 4, "compactedToolIds": ["t1"]}),
        _claude("assistant", 7, message={"id": "m2", **last}),
        _claude("progress", 8, data={"n": 1}),
    ]


def _codex() -> list[Any]:
    told = [("session_meta", {"id": "s1"}), *(("response_item", item) for item in RESPONSES), ("event_msg", {"type": "agent_message"})]
    told += [("compacted", {"message": "in brief", "replacement_history": [RESPONSES[0]]}), ("response_item", RESPONSES[-1])]
    return [{"timestamp": AT, "type": kind, "payload": payload} for kind, payload in told]


def _pi() -> list[Any]:
    made = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
        {"type": "toolCall", "id": "p1", "name": "bash", "arguments": {"n": 1}},
    ]
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "List it."}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
        {"role": "assistant", "content": made, "stopReason": "toolUse"},
        {"role": "toolResult", "content": [{"type": "text", "text": "ok"}], "toolCallId": "p1", "toolName": "bash", "isError": False},
        {"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 0, "timestamp": 1_765_233_665_500},
    ]
    entries: list[Any] = [{"type": "session", "id": "s1", "cwd": "/", "timestamp": AT}]
    entries += [{"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}", "timestamp": AT, "message": m} for n, m in enumerate(said, 1)]
    return [
        *entries,
        {"type": "compaction", "id": "e9", "timestamp": AT, "summary": "in brief", "tokensBefore": 9, "firstKeptEntryIndex": 2},
    ]


def _benchmarks() -> list[Any]:
    call = {"id": "c1", "name": "tide", "arguments": {"n": 1}}
    tau2 = [
        {"role": "user", "content": "hello", "timestamp": AT},
        {"role": "assistant", "content": None, "tool_calls": [call], "cost": 0.1},
        {"role": "tool", "id": "c1", "content": "21:51", "requestor": "assistant"},
        {"role": "user", "content": None, "tool_calls": [call]},
    ]
    simulations = [{"task_id": 1, "trial": 0, "messages": tau2}, {"task_id": 2, "trial": 0, "messages": tau2}]
    return [{"info": {"environment_info": {"policy": "Be kind."}}, "simulations": simulations}]


# format -> the values of its lines; whole documents have names of their own
TRANSCRIPTS: dict[str, list[Any]] = {
    "claude_code": _claude_code(),
    "codex": _codex(),
    "pi": _pi(),
    "openai_chat": [*OPENAI],
    "openai_chat list": [[*OPENAI]],
    "openai_chat object": [{"model": "m", "messages": [*OPENAI]}],
    "tau": [[{"task_id": n, "trial": 0, "traj": [*OPENAI]} for n in range(2)]],
    "tau2": _benchmarks(),
}


# --- entries -----------------------------------------------------------------------------------------------------------

_LEASE = Lease(Holder("token", "host", "boot", 7, 9), 100.5, 50.25)
_NODE = Node("summary", 1, ((1, 2), (4, 4)), 3, 20, 80, 300, "In brief: all is well.", "anthropic")
_NOTE = Note(4, "[lineal notes] nothing is open.", 8, 31, "responses")
_TURN = {"kind": "turn", "id": "u1", "author": "user", "role": "user", "message": None, "tokens": 0, "bytes": 0}

ENTRIES: tuple[Entry, ...] = (
    TurnAppended(at=1.5, id="u1", author="user", role="user", message={"role": "user", "content": "hi \ud800\0😀"}, tokens=5, bytes=30),
    TurnAppended(
        id="@2",
        author="tool",
        role="user",
        message=ANTHROPIC[2],
        tokens=9,
        bytes=90,
        dialect="anthropic",
        calls=(Call("c", "t", "ab"),),
        results=(Result("t1"), Result("t2", False)),
        stubbed=40,
        late=True,
    ),
    CompactionBegun(
        generation=2,
        request_id="r",
        covered=("u1",),
        kept=("u2", "a2"),
        spilled=("a1",),
        input_digest="cd",
        lease=_LEASE,
        policy={"trigger": 9},
    ),
    CompactionCommitted(
        at=2.0,
        generation=2,
        parent=1,
        request_id="r",
        lossy=True,
        covered=("u1",),
        kept=("u2",),
        nodes=(_NODE,),
        pre_digest="aa",
        post_digest="bb",
        watermark=3,
        stubs=(Stub("u2", 10, 2, 3),),
        anchors=(Anchor("number", "21:51", 2, "tool"),),
        note=_NOTE,
        ineffective=1,
        more=True,
    ),
    CompactionAborted(generation=2, why="the holder is gone", ineffective=True),
    Evicted(turns=("u1", "a1"), by="host"),
    Suspended(tokens=900, floor_tokens=800, pinned_tokens=50, trigger=700, policy={"trigger": 700}),
    CheckpointTaken(id="cp7", label="before", generation=1, state_digest="ee", watermark=3, in_flight=True),
    RolledBack(
        target=3, past={"session": "agent", "digest": "00", "head": 3}, guarded=("k",), unknown=("l",), note=_NOTE, checkpoint="cp7"
    ),
    Forked(parent="agent", parent_digest="ff", fork_at=9, note=_NOTE, stand_ins={"4": _TURN}),
    EffectIntended(
        key="k",
        tool="deploy",
        arguments="ab",
        lease=_LEASE,
        idempotent=True,
        keyed=False,
        guarded=False,
        attempt=2,
        turn=4,
        shown={"to": ["x"]},
    ),
    EffectAttached(key="k", handle="job 7"),
    EffectSettled(key="k", attempt=2, state="done", outcome={"n": [1, None]}, why="told so"),
    EffectResolved(key="k", finding="compensated", note="asked"),
    Pinned(pin=Pin("text:ab", text="never touch main"), note=_NOTE),
    Unpinned(id="text:ab"),
    Usage(input_tokens=500, output_tokens=20, counted=480),
    PruneBegun(runs=(Run(1, 3, "aa", "bb"), Run(5, 5, "cc", "dd")), entries=4, segments=(7,)),
    PruneFinished(begun=9),
    PurgeBegun(
        turns=("u1",),
        stand_ins={"1": _TURN},
        generations=(1,),
        checkpoints=("cp7",),
        nodes=(_NODE,),
        seqs=(1,),
        effects=("k",),
        segments=(7,),
    ),
    PurgeFinished(begun=12, note=_NOTE),
    PackBegun(runs=((1, 3), (5, 5)), entries=4, bytes=900, pre_digest="ab", lease=_LEASE),
    Segment(begun=14, runs=((1, 3), (5, 5)), size=980, replaces=(11,), packed=b'(\xb5/\xfd\n{"v":1'),
    PackCommitted(begun=14, segments=(Piece(15, ((1, 3), (5, 5))),), post_digest="ab", replaced=(11,)),
    PackAborted(begun=14, leftovers=(15,)),
    PackFinished(begun=14),
    HostRecord(space="graph", group="cp", key="1", data={"values": ["eA=="]}, turns=("u1",), releases=(2,)),
    Unknown(name="x.mood", raw=b'{"v":9,"kind":"x.mood","calm":1.50}'),
)

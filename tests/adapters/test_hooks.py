"""The hooks of Claude Code and Codex: the real command, the hosts' events, real and small transcripts, a real kill."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import lineal
from lineal import codec, transcripts
from lineal.adapters.hook_event import CONTEXT_CHARS
from lineal.cli import cli
from lineal.entries import Unknown
from lineal.importing import turn_id
from lineal.transcripts import Boundary, Record

LINEAL = [sys.executable, "-m", "lineal"]
PUSH = {"command": "git push origin main"}


@dataclass
class Answered:
    code: int
    output: dict[str, Any]
    stderr: str

    @property
    def decision(self) -> str | None:
        return self.specific.get("permissionDecision")

    @property
    def reason(self) -> str:
        return str(self.specific.get("permissionDecisionReason", ""))

    @property
    def context(self) -> str:
        return str(self.specific.get("additionalContext", ""))

    @property
    def message(self) -> str:
        return str(self.output.get("systemMessage", ""))

    @property
    def specific(self) -> dict[str, Any]:
        found: dict[str, Any] = self.output.get("hookSpecificOutput", {})
        return found

    def went_on(self) -> bool:
        return self.code == 0 and self.output == {}


@dataclass
class Host:
    """One session of a host: its transcript, and the hook command as the host runs it.

    Without `process` the same command runs in this process, for what only differs in the event.
    """

    name: str
    folder: Path
    process: bool = True
    options: list[str] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "hooks.db"

    @property
    def transcript(self) -> Path:
        return self.folder / "transcript.jsonl"

    @property
    def command(self) -> list[str]:
        return [*LINEAL, "hook", self.name, "--store", str(self.store), *self.options]

    def event(self, name: str, **fields: Any) -> bytes:
        base = {"session_id": "s1", "transcript_path": str(self.transcript), "cwd": "/", "hook_event_name": name}
        return json.dumps(base | fields).encode()

    def send(self, name: str, **fields: Any) -> Answered:
        return self.give(self.event(name, **fields))

    def give(self, raw: bytes) -> Answered:
        if not self.process:
            ran = CliRunner().invoke(cli, self.command[len(LINEAL) :], input=raw)
            return Answered(ran.exit_code, json.loads(ran.stdout), ran.stderr)
        done = subprocess.run(self.command, input=raw, capture_output=True, timeout=120)
        return Answered(done.returncode, json.loads(done.stdout), done.stderr.decode())

    def before_call(self, id: str, tool: str = "Bash", args: Any = None, **more: Any) -> Answered:
        return self.send("PreToolUse", tool_name=tool, tool_input=args or PUSH, tool_use_id=id, **more)

    def after_call(self, id: str, response: Any = "pushed 1f2e3d4", **more: Any) -> Answered:
        return self.send("PostToolUse", tool_name="Bash", tool_input=PUSH, tool_use_id=id, tool_response=response, **more)

    def compact(self) -> Answered:
        return self.send("PreCompact", trigger="auto", custom_instructions=None)

    def stopped(self, answer: Answered) -> str:
        """The reason of a compaction that was stopped, in this host's own way."""
        if self.name == "codex":
            assert answer.code == 0 and answer.output["continue"] is False and set(answer.output) == {"continue", "stopReason"}
            return str(answer.output["stopReason"])
        assert answer.code == 2 and answer.output["decision"] == "block" and answer.output["reason"] in answer.stderr
        return str(answer.output["reason"])

    def open(self) -> lineal.Store:
        return lineal.connect(self.store, create=False)

    def turns(self, session: str = "s1") -> list[Any]:
        with self.open() as store:
            return store.session(session).turns()


@pytest.fixture
def claude(tmp_path: Path) -> Host:
    return Host("claude-code", tmp_path)


@pytest.fixture
def codex(tmp_path: Path) -> Host:
    return Host("codex", tmp_path)


@pytest.fixture
def quick(tmp_path: Path) -> Host:
    return Host("claude-code", tmp_path, process=False)


@pytest.fixture(params=["claude-code", "codex"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    return Host(request.param, tmp_path, process=False)


# --- transcripts as the hosts write them -----------------------------------------------------------------------------


def claude_lines(*said: dict[str, Any]) -> list[str]:
    """Lines of Claude Code, each the child of the one before; `id` is a line's uuid."""
    lines, parent = [], None
    for n, one in enumerate(said):
        uuid = f"uuid-{n}"
        lines.append({"sessionId": "s1", "uuid": uuid, "parentUuid": parent, "timestamp": f"2026-01-19T02:24:{n % 60:02}Z", **one})
        parent = uuid
    return [json.dumps(line) + "\n" for line in lines]


def user(text: str) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}}


def answer(text: str, n: int = 0) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "id": f"msg-{n}-{text}", "content": [{"type": "text", "text": text}]}}


def calls(id: str, command: str = "git push origin main") -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}
    return {"type": "assistant", "message": {"role": "assistant", "id": f"msg-{id}", "content": [block]}}


def result(id: str, text: str, error: bool = False) -> dict[str, Any]:
    return {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": error}]},
    }


BOUNDARY = {
    "type": "system",
    "subtype": "compact_boundary",
    "logicalParentUuid": "uuid-3",
    "compactMetadata": {"trigger": "auto", "preTokens": 9},
}


def codex_lines(*said: tuple[str, str]) -> list[str]:
    def line(kind: str, payload: dict[str, Any]) -> str:
        return json.dumps({"timestamp": "2026-06-25T02:07:10.500Z", "type": kind, "payload": payload}) + "\n"

    kinds = {"user": "input_text", "assistant": "output_text"}
    items = [{"type": "message", "role": role, "content": [{"type": kinds[role], "text": text}]} for role, text in said]
    return [line("session_meta", {"id": "s1", "cwd": "/"}), *(line("response_item", item) for item in items)]


TALK = [user("Never push on a Friday."), answer("I will not."), user("The port is 8443, the host db-7.example.org."), answer("Noted.")]


def lines_of(host: Host) -> list[str]:
    if host.name == "codex":
        return codex_lines(("user", "Never push on a Friday."), ("assistant", "I will not."), ("user", "The port is 8443."))
    return claude_lines(*TALK)


# --- before a compaction ---------------------------------------------------------------------------------------------

REAL = {
    "claude-code": ("claude_code/8b418ea5-895d-4ad5-abe8-4489d36e454f.jsonl", "claude_code"),
    "codex": ("codex/rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl", "codex"),
}


def test_a_real_transcript_is_archived_as_it_grows_and_once(host: Host, data_dir: Path) -> None:
    """R2, R7: every record is a turn byte for byte; what was archived is not written again; a repeat writes nothing."""
    name, format = REAL[host.name]
    lines = (data_dir / name).read_bytes().splitlines(keepends=True)
    records = [item for item in transcripts.read(data_dir / name, format) if isinstance(item, Record)]
    begun = next(r.line for r in records[len(records) // 2 :] if r.author == "user")  # a message is whole before the next user's
    host.transcript.write_bytes(b"".join(lines[: begun - 1]))
    assert host.compact().went_on()
    first = [(t.seq, t.id) for t in host.turns()]
    assert 0 < len(first) < len(records)
    host.transcript.write_bytes(b"".join(lines))
    assert host.compact().went_on() and host.compact().went_on()
    turns = host.turns()
    assert [(t.seq, t.id) for t in turns][: len(first)] == first
    assert [(t.id, codec.to_json(t.message)) for t in turns] == [(turn_id(r), codec.to_json(r.message)) for r in records]
    with host.open() as store:
        assert store.verify().clean and store.sessions() == ["s1"] and store.session("s1").status().head == len(records)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: [], "empty file"),
        (lambda lines: [*lines[:-1], lines[-1][:-40]], "torn tail"),
        (lambda lines: [lines[0], lines[1][:-30] + "\n", *lines[2:]], "line 2: torn line"),
        (lambda lines: [*lines[:2], "\0" * 64 + "\n", *lines[2:]], "line 3: NUL run"),
        (lambda lines: [*lines, '{"type": "elsewhere"}\n'], "no record of this format"),
    ],
    ids=["empty", "torn tail", "torn line", "zeros", "foreign record"],
)
def test_a_compaction_over_a_damaged_transcript_is_stopped(quick: Host, spoil: Callable[[list[str]], list[str]], says: str) -> None:
    """R10: the verbatim floor cannot be proven, so nothing may be forgotten."""
    quick.transcript.write_text("".join(spoil(lines_of(quick))))
    reason = quick.stopped(quick.compact())
    assert says in reason and str(quick.transcript) in reason and "Way out" in reason


def test_codex_is_stopped_in_its_own_way(codex: Host) -> None:
    """Exit code 2 would only mark the hook as failed there, and the compaction would go on."""
    lines = lines_of(codex)
    codex.transcript.write_text("".join([*lines[:-1], lines[-1][:-40]]))
    assert "torn tail" in codex.stopped(codex.compact())


def test_a_transcript_that_is_not_there_stops_the_compaction(host: Host) -> None:
    """Nothing was read, so nothing is proven; Codex may also give no path at all."""
    assert "No such file" in host.stopped(host.compact())
    assert "transcript_path" in host.stopped(host.send("PreCompact", trigger="manual", transcript_path=None))


def test_what_could_be_read_of_a_damaged_one_is_archived_and_the_operator_may_go_on(quick: Host) -> None:
    """Whole records beside the damage are kept before the compaction is stopped, and `--on-damage tell` lets it go on."""
    lines = claude_lines(*TALK)
    quick.transcript.write_text("".join([*lines[:-1], lines[-1][:-40]]))
    quick.stopped(quick.compact())
    assert [t.id for t in quick.turns()] == ["uuid-0", "uuid-1", "uuid-2"]
    quick.options = ["--on-damage", "tell"]
    let = quick.compact()
    assert let.code == 0 and "torn tail" in let.message and "decision" not in let.output


def test_a_transcript_that_was_cut_off_since_is_noticed(quick: Host) -> None:
    """A file cut at the end of a line is whole by itself; the archive knows better."""
    lines = claude_lines(*TALK)
    quick.transcript.write_text("".join(lines))
    assert quick.compact().went_on()
    quick.transcript.write_text("".join(lines[:2]))
    assert "'uuid-3' was archived before" in quick.stopped(quick.compact())


def test_a_transcript_that_says_something_else_now_is_noticed(quick: Host) -> None:
    """R2: an archived message is never replaced by another one under its id; another store is the way out."""
    quick.transcript.write_text("".join(claude_lines(*TALK)))
    assert quick.compact().went_on()
    quick.transcript.write_text("".join(claude_lines(user("Push on every Friday."), *TALK[1:])))
    assert "'uuid-0' stands for another message" in (reason := quick.stopped(quick.compact())) and "--store" in reason
    assert quick.turns()[0].message["content"] == "Never push on a Friday."


def test_a_sub_agent_has_an_archive_of_its_own(quick: Host) -> None:
    """Its transcript is another one; what it did to the world stands in the one ledger of the host's session."""
    quick.transcript.write_text("".join(claude_lines(*TALK)))
    assert quick.compact().went_on()
    quick.transcript.write_text("".join(claude_lines(user("Only look at the tests."))).replace("uuid-0", "uuid-a"))
    assert quick.send("PreCompact", trigger="auto", agent_id="a7").went_on()
    assert quick.before_call("call-1", agent_id="a7").went_on()
    with quick.open() as store:
        assert store.sessions() == ["s1", "s1.agent-a7", "s1.effects"]
        assert [t.id for t in store.session("s1.agent-a7").turns()] == ["uuid-a"] and len(store.session("s1").turns()) == 4
    assert quick.before_call("call-2").decision == "deny"


def test_only_damage_behind_the_hosts_last_compaction_counts(quick: Host, data_dir: Path) -> None:
    """A real file that begins midway: what its compaction took away long ago no new one makes worse."""
    lines = (data_dir / "claude_code/839b35f7-slice-microcompact-and-compact.jsonl").read_bytes().splitlines(keepends=True)
    quick.transcript.write_bytes(b"".join(lines[:154]))
    assert "lost record" in quick.stopped(quick.compact())
    quick.transcript.write_bytes(b"".join(lines))
    assert quick.compact().went_on()


def test_a_hook_killed_while_it_archives_goes_on_where_it_was(claude: Host) -> None:
    """R2, R5: SIGKILL between two transactions or within one; the next compaction completes the archive, nothing twice."""
    count = 1_600
    said = [one for n in range(count // 2) for one in (user(f"question {n}"), answer(f"answer {n}: " + "of some length " * 20, n))]
    claude.transcript.write_text("".join(claude_lines(*said)))
    for least in (1, 400):
        assert any(killed(claude, least) for _ in range(5)), "every time it was done before it could be killed"
        assert least <= archived(claude) < count
    assert claude.compact().went_on()
    assert [t.id for t in claude.turns()] == [f"uuid-{n}" for n in range(count)]
    with claude.open() as store:
        assert store.verify().clean


def killed(host: Host, least: int) -> bool:
    """Kill a hook that archives once so many rows are committed. False, and no store, if a busy machine came too late."""
    process = subprocess.Popen(host.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin
    process.stdin.write(host.event("PreCompact", trigger="auto"))
    process.stdin.close()
    while process.poll() is None and archived(host) < least:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
    process.send_signal(signal.SIGKILL)
    if process.wait(60) == -signal.SIGKILL:
        return True
    for file in host.folder.glob(f"{host.store.name}*"):
        file.unlink()
    return False


def archived(host: Host) -> int:
    """Rows that are committed, as another process sees them."""
    if not host.store.exists():
        return 0
    with closing(sqlite3.connect(f"file:{host.store}?mode=ro", uri=True)) as reader:
        try:
            return int(reader.execute("SELECT count(*) FROM entries").fetchone()[0])
        except sqlite3.OperationalError:  # the file was just made and has no tables yet, or is being committed to
            return 0


# --- faults of the store ---------------------------------------------------------------------------------------------


def test_a_damaged_store_stops_compactions_and_effects_and_nothing_else(claude: Host) -> None:
    """R6: a compaction is stopped, an effect denied; the other events tell the fault and let the host go on."""
    claude.transcript.write_text("".join(lines_of(claude)))
    assert claude.compact().went_on() and claude.before_call("call-1").went_on()
    with sqlite3.connect(claude.store) as writer:
        writer.execute("UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'e', 'f') AS BLOB)")
    writer.close()
    assert "altered" in claude.stopped(claude.compact()).lower()
    denied = claude.before_call("call-2")
    assert denied.code == 0 and denied.decision == "deny" and "cannot be proven" in denied.reason
    for told in (claude.send("SessionStart", source="compact"), claude.send("PostCompact", trigger="auto"), claude.after_call("call-1")):
        assert told.code == 0 and told.output.keys() == {"systemMessage"} and "altered" in told.message.lower()
    assert claude.before_call("call-3", args={"command": "ls"}).went_on()


def test_an_event_that_cannot_be_read_is_answered_as_the_strictest_one(host: Host) -> None:
    for raw in (b"{", b'{"session_id": "s1"}'):
        assert "no hook event" in host.stopped(host.give(raw))
    assert "session_id" in host.stopped(host.give(b'{"hook_event_name": "PreCompact", "transcript_path": "/t"}'))
    assert "tool_use_id" in host.give(host.event("PreToolUse", tool_name="Bash", tool_input=PUSH)).reason
    assert host.send("Stop").went_on() and host.send("SessionStart", source="startup").went_on()
    assert not host.store.exists()


# --- behind a compaction ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [False, True], ids=["boundary not yet written", "boundary written"])
def test_what_the_summary_lost_is_recorded_once_and_told(quick: Host, written: bool) -> None:
    """R18: the constraint that the summary keeps is not told; the host and the port that it lost are."""
    quick.transcript.write_text("".join(claude_lines(*TALK)))
    assert quick.compact().went_on()
    summary = "The user said: Never push on a Friday. Work goes on."
    if written:
        shown = {"isCompactSummary": True, **user(f"This session is being continued. {summary}")}
        quick.transcript.write_text("".join(claude_lines(*TALK, BOUNDARY, shown)))
    told = quick.send("PostCompact", trigger="auto", compact_summary=summary)
    assert told.code == 0 and "db-7.example.org" in told.message and "8443" in told.message and "Friday" not in told.message
    assert quick.send("PostCompact", trigger="auto", compact_summary=summary).message == told.message
    with quick.open() as store:
        kept = [codec.from_json(e.raw) for _, e in store.session("s1").log.entries() if isinstance(e, Unknown) and e.name == "x.survival"]
    assert len(kept) == 1 and {v["value"] for v in kept[0]["lost"]} == {"host db-7.example.org", "port is 8443"}
    assert [s["kept"] for s in kept[0]["survival"] if s["kind"] == "constraint"] == [1]


def test_a_real_summary_is_judged_against_what_really_left(claude: Host, data_dir: Path) -> None:
    """The compaction of a real session: as many turns as stood before its boundary, and losses that are really no part of it."""
    lines = (data_dir / "claude_code/03a1382e-ecd5-42c4-b3d4-5c659e165904.jsonl").read_bytes().splitlines(keepends=True)
    claude.transcript.write_bytes(b"".join(lines[:775]))
    assert claude.compact().went_on()
    claude.transcript.write_bytes(b"".join(lines))
    summary = next(i.summary for i in transcripts.read(claude.transcript) if isinstance(i, Boundary))
    told = claude.send("PostCompact", trigger="auto", compact_summary=summary)
    assert "compaction 1 took 361 turns" in told.message and len(told.message) <= CONTEXT_CHARS
    with claude.open() as store:
        raw = next(e.raw for _, e in store.session("s1").log.entries() if isinstance(e, Unknown) and e.name == "x.survival")
    lost = codec.from_json(raw)["lost"]
    assert lost and not [v for v in lost if v["value"] in str(summary)]


def test_the_encrypted_summary_of_codex_is_told_as_one_that_nobody_can_check(codex: Host) -> None:
    codex.transcript.write_text("".join(lines_of(codex)))
    assert codex.compact().went_on()
    with codex.transcript.open("a") as file:
        gone = {"message": "", "replacement_history": [{"type": "compaction", "encrypted_content": "b3BhcXVl"}]}
        file.write(json.dumps({"timestamp": "2026-06-25T02:07:11Z", "type": "compacted", "payload": gone}) + "\n")
    assert "is encrypted" in codex.send("PostCompact", trigger="auto").message


def test_without_an_archive_the_summary_is_not_judged(quick: Host) -> None:
    """The PreCompact hook did not run: said, not guessed."""
    quick.transcript.write_text("".join(claude_lines(*TALK)))
    assert quick.compact().went_on()
    quick.transcript.write_text("".join(claude_lines(user("another file"))))
    told = quick.send("PostCompact", trigger="auto", compact_summary="short")
    assert told.code == 0 and "PreCompact" in told.message


def test_after_a_compaction_the_model_is_given_what_must_be_known(claude: Host) -> None:
    """R16, R51: pins, unknown and done effects with the watermark, open calls, and handles that give the exact turns back."""
    talk = [*TALK, calls("call-9", "sleep 9")]
    claude.transcript.write_text("".join(claude_lines(*talk)))
    assert claude.compact().went_on()
    with claude.open() as store:
        store.session("s1").pin("The staging bucket is off limits.")
    assert claude.before_call("done-1").went_on() and claude.after_call("done-1").went_on()
    assert claude.before_call("lost-1", args={"command": "gh pr create --fill"}).went_on()
    context = claude.send("SessionStart", source="compact").context
    for part in (
        "pinned: The staging bucket is off limits.",
        "pushed 1f2e3d4",
        "git push origin main",
        "watermark",
        "gh pr create --fill",
        "call-9",
    ):
        assert part in context, part
    assert "Never push on a Friday." in context and len(context) <= CONTEXT_CHARS
    command = next(line.rpartition(": lineal ")[2] for line in context.splitlines() if line.startswith("put aside as g1"))
    read = subprocess.run([*LINEAL, *shlex.split(command), "--json"], capture_output=True, timeout=60)
    assert [t["id"] for t in json.loads(read.stdout)["turns"]] == ["uuid-0", "uuid-1"]


def test_the_context_stays_within_its_limit_and_says_what_is_missing(quick: Host) -> None:
    quick.transcript.write_text("".join(claude_lines(*TALK)))
    assert quick.compact().went_on()
    with quick.open() as store:
        for n in range(30):
            store.session("s1").pin(f"rule {n}: " + "x" * 600)
    context = quick.send("SessionStart", source="compact").context
    assert len(context) <= CONTEXT_CHARS and "rule 0:" in context and "more lines that did not fit here" in context


# --- effects ---------------------------------------------------------------------------------------------------------


def test_the_same_call_is_done_once_and_an_equal_one_on_purpose_twice(host: Host) -> None:
    """R47, R49, R50: one emission is one `tool_use_id`; equal arguments in sight are a deliberate repeat."""
    assert host.before_call("call-1").went_on() and host.after_call("call-1").went_on()
    again = host.before_call("call-1")
    assert again.code == 0 and again.decision == "deny" and "pushed 1f2e3d4" in again.reason
    assert host.before_call("call-2").went_on() and host.after_call("call-2", "up to date").went_on()
    with host.open() as store:
        rows = store.session("s1.effects").ledger()
        assert [(r.state, r.note) for r in rows] == [("done", "pushed 1f2e3d4"), ("done", "up to date")]
        assert store.verify().clean and not store.session("s1.effects").status().open_calls


def test_an_equal_call_that_the_compaction_made_forget_is_not_just_sent(host: Host) -> None:
    """R50: Claude Code asks the user, and a yes finds its intent written; Codex cannot ask, and denies. Both say the outcome."""
    assert host.before_call("call-1").went_on() and host.after_call("call-1").went_on()
    host.send("SessionStart", source="compact")
    forgotten = host.before_call("call-2")
    assert forgotten.decision == ("ask" if host.name == "claude-code" else "deny")
    assert "out of the view" in forgotten.reason and "pushed 1f2e3d4" in forgotten.reason
    assert host.before_call("call-3", args={"command": "git push origin main  # once more"}).went_on()
    if host.name == "claude-code":
        assert host.after_call("call-2", "up to date").went_on()
        with host.open() as store:
            assert [r.state for r in store.session("s1.effects").ledger()] == ["done", "done", "unknown"]
    host.options = ["--on-lookalike", "warn"]
    host.after_call("call-3")
    host.send("SessionStart", source="compact")
    warned = host.before_call("call-4")
    assert warned.decision is None and "repeat that nobody meant" in warned.context


def test_an_effect_of_unknown_outcome_is_denied_until_somebody_resolves_it(claude: Host) -> None:
    """R47: the host died after the call was let go; the denial names the command, and the command lifts it."""
    assert claude.before_call("call-1").went_on()
    for id in ("call-1", "call-2"):
        denied = claude.before_call(id)
        assert denied.decision == "deny" and "whether it happened is not known" in denied.reason
    command = shlex.split(denied.reason.partition("then lineal ")[2].partition(" (FINDING")[0].replace("FINDING", "happened"))
    assert subprocess.run([*LINEAL, *command], capture_output=True, timeout=60).returncode == 0
    assert claude.before_call("call-1").decision == "deny"
    assert claude.before_call("call-3").went_on()


def test_the_transcript_says_what_the_host_never_reported(claude: Host) -> None:
    """No event comes when the user refuses a call, nor when a hook was not run; the result in the transcript settles both."""
    assert claude.before_call("call-1").went_on()
    refused = result("call-1", "The user doesn't want to proceed with this tool use. The tool use was rejected.", error=True)
    claude.transcript.write_text("".join(claude_lines(*TALK, calls("call-1"), refused)))
    assert claude.before_call("call-2").went_on()
    claude.transcript.write_text("".join(claude_lines(*TALK, calls("call-1"), refused, calls("call-2"), result("call-2", "pushed"))))
    assert claude.before_call("call-3").went_on()
    with claude.open() as store:
        assert [(r.state, r.note) for r in store.session("s1.effects").ledger()][1:] == [("done", "pushed"), ("unknown", "left unsettled")]


@pytest.mark.parametrize(
    ("event", "fields", "state"),
    [
        ("PostToolUseFailure", {"error": "Exit code 128: could not read from remote"}, "no_effect"),
        ("PostToolUseFailure", {"error": "Interrupted", "is_interrupt": True}, "unknown"),
        ("PostToolUse", {"tool_response": {"stdout": "", "stderr": "", "interrupted": True}}, "unknown"),
        ("PostToolUse", {"tool_response": {"stdout": "", "backgroundTaskId": "b1"}}, "unknown"),
        ("PostToolUse", {"tool_response": {"stdout": "ok", "stderr": "1 warning", "interrupted": False}}, "done"),
        ("PostToolUse", {"tool_response": [{"type": "text", "text": "sent"}]}, "done"),
    ],
    ids=["failed", "broken off", "interrupted", "in the background", "shell", "blocks"],
)
def test_what_the_host_reports_is_the_outcome(quick: Host, event: str, fields: dict[str, Any], state: str) -> None:
    """R47: a clean failure may be sent again; what was broken off, or still runs, is unknown. A second report changes nothing."""
    assert quick.before_call("call-1").went_on()
    for _ in range(2):
        assert quick.send(event, tool_name="Bash", tool_input=PUSH, tool_use_id="call-1", **fields).went_on()
    with quick.open() as store:
        session = store.session("s1.effects")
        (row,) = session.ledger()
        assert row.state == state and row.attempt == 1
        head = session.status().head
    assert quick.before_call("call-1").went_on() == (state == "no_effect")
    with quick.open() as store:
        assert (store.session("s1.effects").status().head > head) == (state == "no_effect")


def test_what_changes_nothing_outside_is_never_guarded(quick: Host) -> None:
    """R48: reading, editing and `make test` any number of times; the store is not even made. The operator names others."""
    quiet = [
        ("Read", {"file_path": "/etc/hosts"}),
        ("Bash", {"command": "make test"}),
        ("Edit", {"file_path": "a"}),
        ("mcp__docs__search", {}),
    ]
    for tool, args in quiet:
        assert quick.before_call("call-1", tool, args or {"query": "x"}).went_on()
    assert not quick.store.exists()
    quick.options = ["--effects", "Bash(make deploy*)"]
    assert quick.before_call("call-1").went_on() and not quick.store.exists()
    assert quick.before_call("call-2", args={"command": "cd app && make deploy"}).went_on()
    assert quick.before_call("call-2", args={"command": "cd app && make deploy"}).decision == "deny"

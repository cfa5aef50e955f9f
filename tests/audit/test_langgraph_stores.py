"""What an audit says of LangGraph stores that LangGraph wrote, with LangChain's own middleware compacting in them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages

from lineal.audit import Audit, Finding, audit, audit_paths, render_html, render_text, to_json
from lineal.transcripts import Boundary, Damage, Record, conversations, detect, read, read_all


def of_kind(done: Audit, kind: str) -> list[Finding]:
    return [f for f in done.findings if f.kind == kind]


def items(path: Path, kind: Any) -> list[Any]:
    return [item for item in read(path) if isinstance(item, kind)]


def test_a_mail_that_was_sent_again_behind_two_summaries_is_a_blind_repeat(graphs: Any, store: Path) -> None:
    """What LangChain's middleware left out, checkpoint by checkpoint, while the store is open."""
    graphs.run(
        [graphs.mail("c1"), "Done.", "Yes.", graphs.mail("c2"), "Sent."],
        ["Never touch the staging bucket. Ticket OPS-12.", "And?", "Send it."],
        graphs.summaries(),
    )
    done = audit(store)
    assert (done.format, done.place, done.conversations) == ("langgraph", "checkpoint", 1)
    assert [(a.kind, a.covered, a.kept, a.seen) for a in done.compactions] == [
        ("compaction", 3, 2, 1.0),
        ("compaction", 2, 2, 1.0),
        ("compaction", 2, 2, 1.0),
    ]
    (repeat,) = of_kind(done, "effect_repeated_blind")
    assert [c["outcome"] for c in repeat.detail["calls"]] == ["done", "done"] and "checkpoint" in repeat.text
    assert [v["value"] for f in of_kind(done, "lost_constraint") for v in f.detail["values"]] == ["Never touch the staging bucket."]
    assert [v["value"] for f in of_kind(done, "lost_value") for v in f.detail["values"]] == ["Ticket OPS-12"]
    assert {f.kind for f in done.findings} == {"effect_repeated_blind", "lost_constraint", "lost_value"}


def test_what_the_summary_says_again_is_not_lost(graphs: Any, store: Path) -> None:
    kept = "Never touch the staging bucket. Ticket OPS-12. The mail to anna was sent."
    graphs.run(
        [graphs.mail("c1"), "Done.", "Yes."], ["Never touch the staging bucket. Ticket OPS-12.", "And?", "So?"], graphs.summaries(kept)
    )
    assert {a.lost for a in audit(store).compactions} == {()}


def test_the_messages_are_what_langgraph_holds_each_once(graphs: Any, saver: Any, store: Path) -> None:
    """Without its packages: every message of every checkpoint, in the order in which they came."""
    graphs.run([graphs.mail("c1", "c2"), "Done.", "Yes."], ["Go.", "And?"], graphs.summaries())
    wanted: dict[str, Any] = {}
    for checkpoint in reversed(list(saver.list(graphs.CONFIG))):
        for m in checkpoint.checkpoint["channel_values"].get("messages", ()):
            wanted.setdefault(m.id, m)
    records = items(store, Record)
    summaries = {id for id, m in wanted.items() if m.additional_kwargs.get("lc_source") == "summarization"}
    assert [r.id for r in records] == [id for id in wanted if id not in summaries] and summaries
    for record in records:
        texts = [b.get("text", b.get("content")) for b in record.message["content"] if b["type"] != "tool_use"]
        assert "".join(texts) == wanted[str(record.id)].content
    (calls,) = [r.message["content"] for r in records if any(b["type"] == "tool_use" for b in r.message["content"])]
    assert [(c["id"], c["input"]) for c in calls] == [(c["id"], c["args"]) for c in wanted[records[1].id].tool_calls]


@pytest.mark.parametrize("limit", ["default", None])
def test_by_default_the_writer_of_a_summary_is_shown_the_end_only_and_the_audit_knows_which(graphs: Any, store: Path, limit: Any) -> None:
    """What leaves is 9,000 tokens; the middleware shows 4,000 of them to its model, and no store says what it was set to."""
    words = "The harbour opens at nine and the tide turns. " * 100
    writer = graphs.writer("They talked.")
    more = {} if limit == "default" else {"trim_tokens_to_summarize": limit}
    graphs.run(
        [f"Answer {n}. {words}" for n in range(8)],
        [f"Question {n}. {words}" for n in range(5)],
        graphs.summaries(writer, trigger=("messages", 9), **more),
    )
    said = str(writer.shown[0])
    records = {str(r.id): r for r in items(store, Record)}
    boundary = items(store, Boundary)[0]
    never = [records[id].message["content"][0]["text"].partition(".")[0] for id in boundary.detail["default_unseen_ids"]]
    left = [
        r.message["content"][0]["text"].partition(".")[0]
        for id, r in records.items()
        if r.line < boundary.line and id not in boundary.detail["view_ids"]
    ]
    shown = [f"{name}." in said for name in left]
    if limit is None:
        assert all(shown)
    else:
        assert [name for name, there in zip(left, shown, strict=True) if not there] == never and any(shown)
        (finding,) = of_kind(audit(store), "unread_by_default")
        assert 0.3 < finding.detail["share"] < 0.9


def test_a_summary_from_nothing_is_an_unread_removal(graphs: Any, store: Path) -> None:
    """Where not even one message fits, the middleware writes a sentence of its own: nobody read what left."""
    long = "The harbour opens at nine. " * 900
    graphs.run([long] * 4, ["Go.", "On.", "So?"], graphs.summaries(keep=("messages", 1), trim_tokens_to_summarize=10))
    account, *_ = audit(store).compactions
    assert account.seen == 0 and of_kind(audit(store), "unread_removal")


def test_going_back_over_a_mail_and_sending_it_again(graphs: Any, saver: Any, store: Path) -> None:
    """Time travel: the view forgets the mail, the world does not."""
    agent = graphs.run([graphs.mail("c1"), "Done.", graphs.mail("c2"), "Sent."], ["Send it."])
    first = next(c for c in saver.list(graphs.CONFIG) if len(c.checkpoint["channel_values"].get("messages", ())) == 1)
    agent.invoke(None, first.config)
    done = audit(store)
    assert [a.kind for a in done.compactions] == ["rollback"]
    (back,) = of_kind(done, "effect_rolled_back")
    assert [c["id"] for c in back.detail["calls"]] == ["c1"]
    (repeat,) = of_kind(done, "effect_repeated_blind")
    assert [c["id"] for c in repeat.detail["calls"]] == ["c1", "c2"]
    assert "did happen" in back.text and not of_kind(done, "no_summary") and not of_kind(done, "lost_value")


def test_a_branch_that_is_taken_up_again_has_its_messages_back(graphs: Any, saver: Any, store: Path) -> None:
    agent = graphs.run(["One.", "Two.", "Other.", "On."], ["First.", "Second."])
    tip, *_, first = [c.config for c in saver.list(graphs.CONFIG) if len(c.checkpoint["channel_values"].get("messages", ())) in (2, 4)]
    agent.invoke({"messages": [HumanMessage("Instead.")]}, first)
    agent.invoke({"messages": [HumanMessage("Back.")]}, tip)
    boundaries = items(store, Boundary)
    words = {str(r.id): r.message["content"][0]["text"] for r in items(store, Record)}
    assert [b.kind for b in boundaries] == ["rollback", "rollback"]
    assert [[words[id] for id in b.detail["view_ids"]] for b in boundaries] == [["First.", "One."], ["First.", "One.", "Second.", "Two."]]
    assert sorted(words.values()) == sorted(["First.", "One.", "Second.", "Two.", "Instead.", "Other.", "Back.", "On."])


def test_a_call_whose_arguments_a_person_changed_is_held_against_what_was_sent(graphs: Any, saver: Any, store: Path) -> None:
    """The message is written over in place: the first arguments were never sent, so nobody waits for their result."""
    agent = graphs.agent([graphs.mail("c1", to="anna"), "Sent."])
    agent = graphs.agent([graphs.mail("c1", to="anna"), "Sent."])
    for _ in agent.stream({"messages": [HumanMessage("Send it.")]}, graphs.CONFIG, interrupt_before=["tools"]):
        continue
    message = agent.get_state(graphs.CONFIG).values["messages"][-1]
    changed = message.model_copy(update={"tool_calls": [{**message.tool_calls[0], "args": {"to": "berta", "body": "The report."}}]})
    agent.update_state(graphs.CONFIG, {"messages": [changed]}, as_node="model")
    agent.invoke(None, graphs.CONFIG)
    done = audit(store)
    assert {f.kind for f in done.findings} == {"written_over"}
    calls = [b["input"]["to"] for r in items(store, Record) for b in r.message["content"] if b["type"] == "tool_use"]
    assert calls == ["anna", "berta"]


def test_a_result_that_no_checkpoint_has_yet_is_read_from_the_writes(graphs: Any, store: Path) -> None:
    """One of two parallel calls ran, the other brought the run down: only the other one is in flight."""
    both = graphs.mail("c1")
    both.tool_calls.append({"id": "c2", "name": "send_mail", "args": {"to": "nobody", "body": "x"}, "type": "tool_call"})
    with pytest.raises(RuntimeError, match="mail server"):
        graphs.run([both], ["Send both."])
    done = audit(store)
    assert [f.detail["call"]["id"] for f in of_kind(done, "effect_in_flight")] == ["c2"]
    assert [r.author for r in items(store, Record)] == ["user", "assistant", "tool"]


def test_a_store_can_be_imported_too_and_a_second_time_adds_nothing(graphs: Any, store: Path) -> None:
    import lineal
    from lineal.importing import import_transcript

    graphs.run([graphs.mail("c1"), "Done.", "Yes.", "So."], ["Send it.", "And?", "So?"], graphs.summaries())
    session = lineal.connect("memory:").session("t")
    first, again = (import_transcript(session, store, changes_state=["send_*"]) for _ in range(2))
    assert (first.turns, first.effects, [kind for _, kind in first.boundaries]) == (8, 1, ["compaction", "compaction"])
    assert (again.turns, again.already_there, again.effects) == (0, 8, 0)
    assert [(row.tool, row.state) for row in session.ledger()] == [("send_mail", "done")]


# --- graphs of one's own ---------------------------------------------------------------------------------------------


class Whole(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    summary: str


class Differences(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]


def talker(state_type: Any, saver: Any, compact: Callable[[Any], Any]) -> Any:
    """A graph that answers, and once it holds six messages does as `compact` says."""

    def answer(state: Any) -> Any:
        said = {"messages": [("ai", f"Answer {len(state['messages'])}.")]}
        return said if len(state["messages"]) < 6 else compact(state)

    graph = StateGraph(state_type)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


def test_a_summary_that_a_graph_keeps_beside_its_messages_is_found(graphs: Any, saver: Any, store: Path) -> None:
    def compact(state: Any) -> Any:
        return {"summary": "Port 8443 is taken.", "messages": [RemoveMessage(m.id) for m in state["messages"][:-2]]}

    graph = talker(Whole, saver, compact)
    for question in ("Port 8443, ticket OPS-12.", "On.", "On.", "On."):
        graph.invoke({"messages": [("user", question)]}, graphs.CONFIG)
    (account,) = audit(store).compactions
    assert (account.covered, account.kept) == (5, 2) and [v.value for v in account.lost] == ["ticket OPS-12"]
    assert items(store, Boundary)[0].summary == "Port 8443 is taken."


def test_messages_that_a_graph_removes_and_nobody_summarises(graphs: Any, saver: Any, store: Path) -> None:
    graph = talker(Whole, saver, lambda state: {"messages": [RemoveMessage(m.id) for m in state["messages"][:-1]]})
    for _ in range(4):
        graph.invoke({"messages": [("user", "On.")]}, graphs.CONFIG)
    assert of_kind(audit(store), "no_summary")


def test_a_channel_that_stores_differences_is_put_together(graphs: Any, saver: Any, store: Path) -> None:
    """The same talk in both kinds of channel gives the same items, but for ids and times."""
    told: list[Any] = []
    for kind in (Whole, Differences):
        graph = talker(kind, saver, lambda state: {"messages": [RemoveMessage(m.id) for m in state["messages"][:-2]]})
        config: Any = {"configurable": {"thread_id": kind.__name__}}
        for n in range(6):
            graph.invoke({"messages": [("user", f"Question {n}.")]}, config)
        held = [m.content for m in graph.get_state(config).values["messages"]]
        found = list(read(store, conversation=conversations(store).index(kind.__name__)))
        assert not [i for i in found if isinstance(i, Damage)]
        told.append([i.message if isinstance(i, Record) else (i.kind, len(i.detail["view_ids"])) for i in found])
        assert held[-1] == found[-1].message["content"][0]["text"]
    assert told[0] == told[1] and any(kind == "compaction" for kind, *_ in (t for t in told[0] if isinstance(t, tuple)))


def test_threads_and_subgraphs_are_conversations(graphs: Any, saver: Any, store: Path) -> None:
    for thread in ("b", "a"):
        graphs.agent(["Hello."]).invoke({"messages": [HumanMessage("Hi.")]}, {"configurable": {"thread_id": thread}})
    assert conversations(store) == ["b", "a"] and detect(store) == "langgraph"
    assert [(name, sum(isinstance(i, Record) for i in found)) for name, found in read_all(store)] == [("b", 2), ("a", 2)]


# --- damage ----------------------------------------------------------------------------------------------------------


def changed(source: Path, path: Path, *statements: str) -> Path:
    path.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(path)) as store:
        for sql in statements:
            store.execute(sql)
        store.commit()
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


MIDDLE = "(SELECT rowid FROM checkpoints ORDER BY checkpoint_id LIMIT 1 OFFSET 40)"


@pytest.mark.parametrize(
    ("statement", "kind", "line", "said"),
    [
        (f"DELETE FROM checkpoints WHERE rowid = {MIDDLE}", "lost_record", 41, "the parent of this checkpoint"),
        (
            "DELETE FROM checkpoints WHERE checkpoint_id < (SELECT checkpoint_id FROM checkpoints WHERE rowid = 30)",
            "begins_midway",
            1,
            "parent",
        ),
        (f"UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 900) WHERE rowid = {MIDDLE}", "damaged", 41, "cannot be decoded"),
        (f"UPDATE checkpoints SET checkpoint = zeroblob(900) WHERE rowid = {MIDDLE}", "damaged", 41, "trailing characters (byte 1)"),
        (f"UPDATE checkpoints SET type = 'pickle' WHERE rowid = {MIDDLE}", "damaged", 41, "a pickle, which is never opened"),
        (f"UPDATE checkpoints SET type = 'msgpack+aes' WHERE rowid = {MIDDLE}", "damaged", 41, "encrypted"),
        (f"UPDATE checkpoints SET checkpoint = NULL WHERE rowid = {MIDDLE}", "damaged", 41, "cannot be decoded"),
    ],
)
def test_a_checkpoint_that_is_gone_or_ruined_is_named_by_its_number_and_nothing_else_is_lost(
    long_store: Path, tmp_path: Path, statement: str, kind: str, line: int, said: str
) -> None:
    done = audit(changed(long_store, tmp_path / "graph.db", statement))
    (finding,) = of_kind(done, kind)
    assert finding.line == line and said in finding.text and f"Checkpoint {line}" in finding.text
    whole = audit(long_store)
    assert done.records >= whole.records - 8 and (kind == "begins_midway" or len(done.compactions) == len(whole.compactions))


def test_the_report_says_checkpoints_and_is_the_same_as_text_page_and_json(graphs: Any, store: Path) -> None:
    graphs.run([graphs.mail("c1"), "Done.", "Yes."], ["Ticket OPS-12.", "And?", "So?"], graphs.summaries())
    (done,) = audit_paths([store.parent])
    text, page, data = render_text([done]), render_html([done]), json.loads(json.dumps(to_json([done])))
    account, *_ = data["audits"][0]["compactions"]
    assert data["audits"][0]["place"] == "checkpoint" and account["id"] and account["kind"] == "compaction"
    for said in (text, page):
        assert f"compaction 1 at checkpoint {account['line']} ({account['id']})" in said and "at line" not in said

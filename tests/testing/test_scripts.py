"""The script language: a story can be read, can be written again, and can fail in each of the ways in which it must."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineal.testing import scripts
from lineal.testing.scripts import language
from lineal.testing.scripts.must import CHECKS
from lineal.testing.scripts.verbs import VERBS
from lineal.testing.summaries import BAD

SHORT = """# Two turns.
> user u1 "hello"
u1 at 1
> agent a1 "hi"
a1 at 2

> must show_only u1 a1
"""


def story(directory: Path, text: str) -> Path:
    path = directory / "a.story"
    path.write_text(text)
    return path


def test_a_story_that_is_as_it_says_passes_on_both_engines(tmp_path: Path) -> None:
    path = story(tmp_path, SHORT)
    scripts.run(path, scripts.InMemory())
    scripts.run(path, scripts.InFile(tmp_path / "agent.db"))
    assert path.read_text() == SHORT, "running writes nothing"


def test_rewriting_puts_in_what_was_printed_and_keeps_all_else(tmp_path: Path) -> None:
    path = story(tmp_path, SHORT.replace("a1 at 2\n", "").replace("u1 at 1", "u1 at 99"))
    scripts.run(path, scripts.InMemory(), rewrite=True)
    assert path.read_text() == SHORT


def test_another_line_than_the_one_printed_fails_with_a_diff(tmp_path: Path) -> None:
    path = story(tmp_path, SHORT.replace("a1 at 2", "a1 at 3"))
    with pytest.raises(scripts.ScriptError, match=r"a.story:4: .*printed something else\n(.|\n)*-a1 at 3\n\+a1 at 2"):
        scripts.run(path, scripts.InMemory())


@pytest.mark.parametrize("rewrite", [False, True])
def test_a_must_that_does_not_hold_fails_also_while_rewriting(tmp_path: Path, rewrite: bool) -> None:
    path = story(tmp_path, SHORT.replace("show_only u1 a1", "show_only u1"))
    with pytest.raises(scripts.ScriptError, match=r"a.story:7: must show_only u1: shown are \['u1', 'a1'\]"):
        scripts.run(path, scripts.InMemory(), rewrite)


@pytest.mark.parametrize("rewrite", [False, True])
def test_a_must_that_cannot_be_asked_does_not_hold(tmp_path: Path, rewrite: bool) -> None:
    """An error is no answer: it is never printed, and so never rewritten into the file."""
    path = story(tmp_path, SHORT.replace("> must show_only u1 a1", "> damage alter 1\n1 rows damaged\n> must show_only u1 a1"))
    with pytest.raises(scripts.ScriptError, match="a.story:9: must show_only u1 a1: it cannot be asked: corrupt at seq 1"):
        scripts.run(path, scripts.InMemory(), rewrite)


def told(*lines: str) -> list[str]:
    """What the last of these commands prints."""
    script = language.Script(Path("a.story"), [language.parse(line, n) for n, line in enumerate(lines, 1)])
    return scripts.play(script, scripts.InMemory())[len(lines)]


COMPACTED = ("policy trigger=600 ceiling=9000 target=300", "dialogue 1..15 tokens=40")


def test_a_fault_strikes_the_write_that_the_story_names_whatever_is_read_before() -> None:
    """The second write of a compaction is its commit; with `after` it stands, and only its answer is lost."""
    assert told(*COMPACTED, "failing write 2 compact", "must be generation 0", "log") == [
        "1-30 turn",
        "31 compaction_begun",
        "32 compaction_aborted",
    ]
    assert told(*COMPACTED, "failing write 2 after compact", "must be generation 1", "must fail Unavailable") == []
    assert told(*COMPACTED, "failing read 1 compact") == ["unavailable"]


def test_a_killed_process_leaves_what_it_had_written_and_another_goes_on() -> None:
    assert told(*COMPACTED, "killed write 2 compact", "must be generation 0", "log") == ["1-30 turn", "31 compaction_begun"]
    assert told(*COMPACTED, "killed write 2 after compact", "must be generation 1") == []
    assert told(*COMPACTED, "B: killed write 1 user u16", "must have_said u15", "B: user u16 again") == ["u16 at 31"]


def test_killed_everywhere_the_states_are_told_in_order() -> None:
    """A purge declares what it will erase, then erases it: between the two it is neither old nor new, and doing it again ends it."""
    assert told(*COMPACTED, "everywhere compact") == ["killed at each write: old, then new"]
    assert told(*COMPACTED, "compact", "everywhere purge u1", "must see stuck 0") == []
    assert told(*COMPACTED, "everywhere purge u1") == ["killed at each write: old, then between, then new"]


def test_what_a_hook_says_is_told_with_the_command_that_it_belongs_to() -> None:
    hooked = (*COMPACTED, "hook before_commit", "meanwhile user u16", "meanwhile user u17")
    assert told(*hooked, "compact")[:3] == ["meanwhile: u16 at 32", "meanwhile: u17 at 33", "before_commit g1"]
    assert told(*hooked, "compact", "status")[0].startswith("head")


def test_a_foreign_transcript_is_taken_over() -> None:
    lines = """'{"role":"user","content":"hello"}' '{"role":"tool","tool_call_id":"c9","content":"late"}'"""
    assert told(f"import openai_chat {lines}") == [
        "2 turns and 0 effects added, 0 turns were there",
        "line 2 in quarantine: lost call: this result answers c9, which no earlier line calls",
        "line 2: a result without its call c9",
    ]


def test_the_oracle_fails_a_story_whose_engine_loses_something(tmp_path: Path) -> None:
    """Nothing in the story asks; the lists do: a row that was rewritten is found after the command that follows."""
    place = scripts.InMemory()

    class Meddling(scripts.InMemory):
        def open(self):  # type: ignore[no-untyped-def]
            engine = place.open()
            logs = engine._logs  # type: ignore[attr-defined]
            if "agent" in logs and len(logs["agent"].rows) == 2:
                del logs["agent"].rows[1]
            return engine

    with pytest.raises(scripts.ScriptError, match="a.story:4: after 'agent a1 \"hi\"': .*seq 1"):
        scripts.run(story(tmp_path, SHORT), Meddling())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("> usr u1", "no verb 'usr'; did you mean user"),
        ("> user", "names no id: user ID"),
        ("> user u1\nu1 at 1\n> must shov u1", "must shov: no such check; there are"),
        ("> compact 'x", "No closing quotation"),
        ("words", "stands below no command"),
        ("> commit", "there is no plan to commit"),
        ("> summarizer nobody", "no summarizer 'nobody'"),
        ("> user u1 tokns=3", "user has no option 'tokns'; did you mean tokens"),
        ("> compact now=yes", "compact has no option 'now'; there are request"),
        ("> say {", "a.story:1: 'say {' raised JSONDecodeError"),
        ("> user u1\nu1 at 1\n> must be generation", "cannot be understood; must be generation"),
        ("> user u1\nu1 at 1\n> must be younger 1", "cannot be understood; must be generation"),
        ("> failing 1 user u1", "failing write.read N"),
        ("> failing write 2 user u1", "it went through, there was no write 2 in it"),
        ("> killed write 2 user u1", "it went through, there was no write 2 in it"),
        ("> everywhere view", "it writes nothing"),
        ("> dialogue 1..2 tokens=many", "tokens=many is no whole number"),
    ],
)
def test_what_cannot_be_understood_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(scripts.ScriptError, match=says):
        scripts.run(story(tmp_path, text + "\n"), scripts.InMemory())


def test_names_in_a_row() -> None:
    assert language.spelled(["u1..u3", "x", "m9..m10"]) == ["u1", "u2", "u3", "x", "m9", "m10"]
    assert language.shortened(f"u{n}" for n in range(1, 7)) == "u1..u6 (6)"
    assert language.shortened([]) == "nothing"
    assert language.rows_of_names([*(f"m{n}" for n in range(1, 21)), "x", "m3", "m4"]) == ["m1..m20 (20)", "x", "m3", "m4"]


def test_every_verb_and_check_says_what_it_does() -> None:
    assert all(verb.usage.split()[0] == name and verb.does for name, verb in VERBS.items()) and len(VERBS) > 50
    assert all(usage.startswith(f"must {name}") for name, (usage, _) in CHECKS.items())
    assert scripts.table().count("\n") == len(VERBS) + 1


def test_every_bad_summary_can_be_told(tmp_path: Path) -> None:
    for name in BAD.keys() - {"hangs", "raises"}:
        text = f"> policy trigger=600 ceiling=9000 target=300\n> dialogue 1..15 tokens=40\nu1..a15 (30) at 1..30\n> summarizer {name}\n"
        path = story(tmp_path, f"{text}> compact\n> must be generation 0\n")
        with pytest.raises(scripts.ScriptError, match=r"\+refused"):
            scripts.run(path, scripts.InMemory())

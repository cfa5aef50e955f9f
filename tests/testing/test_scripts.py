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
        ("> user u1\nu1 at 1\n> must shov u1", "must shov: one of"),
        ("> compact 'x", "No closing quotation"),
        ("words", "stands below no command"),
        ("> commit", "there is no plan to commit"),
        ("> summarizer nobody", "no summarizer 'nobody'"),
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

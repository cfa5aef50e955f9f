"""Claims that something is done, against a ledger that does not know it."""

from __future__ import annotations

import pytest

from lineal.rules.completion import false_completion, sweeping

LEDGER = (
    ("s2", "charge_card", "unknown"),
    ("s3", "send_email", "intended"),
    ("rotate:2026-11-30", "rotate-keys", "unknown"),
    ("k9", "bash", "unknown"),
    ("d1", "deploy", "no_effect"),
)
FALSE = [
    "All done.",
    "All three steps are done.",
    "All steps completed successfully.",
    "Everything has been completed.",
    "Completed all tasks.",
    "The migration is complete.",
    "Nothing is left to do.",
    "No pending effects remain.",
    "All of the planned effects have been executed",
    "s2 done",
    "s1, s2 and s3 are done.",
    "- s2: done",
    "[x] s2",
    "s2 ✅",
    "Steps s1 and s2 completed with no errors.",
    "s2 is done, s3 may come later",
    "Completed:\n- s1\n- s2\n",
    "## Done\n\n1. s1\n2. charge_card for 30\n",
    "charge_card succeeded",
    "The email was sent to Alice.",
    "We charged the card.",
    "Keys were rotated.",
    "Rotation of the keys finished.",
    "rotate:2026-11-30 succeeded",
    "Deployed v2 to staging.",
]
TRUE = [
    "s1 is done; s2 is in doubt; s3 is planned.",
    "s1 done, s2 unknown",
    "s2 not done",
    "s2 may be done",
    "Done: s1. In doubt: s2.",
    "Not done:\n- s2\n- s3",
    "Done:\n- s1\n\nPending:\n- s2",
    "The card charge timed out; outcome unknown.",
    "The email to Alice is planned.",
    "Deploy refused: no effect.",
    "Once s2 is done, send the email.",
    "We will rotate the keys tomorrow.",
    "All tests pass.",
    "All files were read.",
    "Everything must be done by Friday.",
    "All steps must be completed before Friday.",
    "bash commands were run",
    "Fixed the parser; the tests are green.",
    "Key points: parser, tests",
    "Open tasks: none",
]


@pytest.mark.parametrize("text", FALSE)
def test_more_is_claimed_than_the_ledger_knows(text: str) -> None:
    """R20, CB-186."""
    assert false_completion(text, LEDGER)


@pytest.mark.parametrize("text", TRUE)
def test_nothing_is_claimed_against_the_ledger(text: str) -> None:
    assert false_completion(text, LEDGER) == ""


@pytest.mark.parametrize("text", FALSE)
def test_with_everything_settled_anything_may_be_said(text: str) -> None:
    assert false_completion(text, ()) == ""
    assert false_completion(text, [(key, tool, "done") for key, tool, _ in LEDGER]) == ""


def test_a_refused_effect_does_not_speak_against_all_the_others() -> None:
    """R47: *no effect* is settled; only its own completion would be a lie."""
    refused = [("d1", "deploy", "no_effect")]
    assert false_completion("All other steps are done.", refused) == ""
    assert false_completion("d1 is done.", refused)


def test_a_tool_that_did_its_work_elsewhere_is_judged_by_key() -> None:
    assert false_completion("The email was sent to Bob.", LEDGER, done_tools=("send_email",)) == ""
    assert false_completion("s3 was sent.", LEDGER, done_tools=("send_email",))


def test_the_clause_is_named() -> None:
    assert false_completion("The parser works. s2 is done. Docs are open.", LEDGER) == "s2 is done"


def test_sweeping() -> None:
    assert sweeping("everything is done")
    assert not sweeping("everything but the docs might be done")


NAMED = [  # tool, text, whether the text says of it that it is done
    ("rotate_key", "The keys were rotated.", True),
    ("rotate_key", "The logs were rotated.", False),
    ("rotate_log", "Logging was rotated.", False),
    ("transfer_file", "The file was transformed.", False),
    ("run_invoice", "The run of the invoice is done.", True),
    ("db_up", "The db up is done.", True),
]


@pytest.mark.parametrize(("tool", "text", "claims"), NAMED)
def test_a_tool_is_named_by_forms_of_its_words_and_by_no_others(tool: str, text: str, claims: bool) -> None:
    """R20: key and keys, rotate and rotated; not log and logging, nor transfer and transform."""
    assert bool(false_completion(text, [("x-1-y", tool, "unknown")])) is claims


def test_only_a_heading_makes_a_list_one_of_things_that_are_done() -> None:
    """R20: a line without a colon or marks of a heading is a sentence like any other."""
    ledger = [("rotate:1", "rotate_key", "unknown")]
    assert false_completion("Things done today:\n- rotate the key", ledger)
    assert not false_completion("Things done today\n- rotate the key", ledger)


def test_a_claim_of_all_that_stands_in_one_part_of_a_sentence_is_a_claim() -> None:
    """R20."""
    assert sweeping("All steps are done, and the weather is fine")
    assert not sweeping("The weather is fine, and the sea is calm")

"""What a store keeps beside its rows is changed at rest: noticed, or harmless; and the campaign can find what is neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lineal import CompactionVerdict
from lineal.session import effects, states, travel
from lineal.store import Store
from lineal.testing import spoiling
from lineal.testing.lived import lived
from lineal.testing.scripts.places import InFile
from lineal.testing.tally import Tally
from lineal.testing.tampering import truths


def test_nothing_beside_the_rows_makes_an_answer_false(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """R36, R59, R60: states, latches, names, indexes, marks, an older copy of the file: a sample of each."""
    tally = spoiling.campaign(tmp_path, every=5)
    assert tally.sound, tally.wrong()
    assert tally.faults["a row lost by the index"] > 9 and tally.faults["an older copy of the whole file"] == 1
    tell(f"beside the rows: {tally.runs} changes, {tally.states['noticed']} noticed by who only reads, 0 undetected")


def struck(folder: Path, kind: str) -> Tally:
    place = InFile(folder / "whole.db")
    kept = lived(place)
    known = truths(kept)
    cases = [(name, spoil) for name, spoil in spoiling.spoils(place.path) if name.startswith(kind)]
    return sum((spoiling.one(kept, known, name, spoil) for name, spoil in cases), Tally())


def test_it_finds_a_lookup_that_believes_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (effects, travel):
        monkeypatch.setattr(room, "find_all", lambda log, lineage, key, chain, limit=None: log.find(key, limit))
    monkeypatch.setattr(effects, "refuse_unless_all", lambda *given: None)
    tally = struck(tmp_path, "a row lost by the index")
    assert any("effect mail-0 is answered (True, None)" in sentence for sentence in tally.undetected), "it would be sent again"


def test_a_forged_state_is_named_by_verify(tmp_path: Path) -> None:
    """What docs/proof.md says is not proven: with its own digest made right it is believed until the log is folded again (R61)."""
    kept = lived(InFile(tmp_path / "whole.db"))

    def forge(store: Store) -> None:
        seq, data = store.engine.state("agent") or (0, b"")
        lineage = states.unpack(data)
        assert lineage is not None
        store.engine.put_state("agent", seq, states.pack(msgspec.structs.replace(lineage, factor=2.0)))

    kept.ask(forge)
    reports = kept.ask(lambda store: store.verify("agent"))
    assert [r.verdict for r in reports] == [CompactionVerdict.ALTERED]

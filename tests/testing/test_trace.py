"""What is left of a disk when the machine stops: each sentence of `lineal.testing.trace`, on a few bytes (R30, R35)."""

from __future__ import annotations

import random
from pathlib import Path

from lineal.testing.trace import SECTOR, Image, Op, Trace, fingerprint, put

A, B, C = (letter * SECTOR for letter in (b"a", b"b", b"c"))


def traced(*ops: Op, base: Image | None = None) -> Trace:
    return Trace(base or {}, [*ops])


def cuts(trace: Trace, name: str = "f", seeds: int = 300) -> set[bytes | None]:
    """Every content of a file that some power cut at the end leaves."""
    replay = trace.after()
    return {replay.after_cut(seed).get(name) for seed in range(seeds)}


def write(data: bytes, at: int = 0) -> Op:
    return Op("write", "f", at, data)


SYNCED = (Op("sync", "f"), Op("sync folder"))


def test_the_end_of_the_process_takes_nothing_that_was_written() -> None:
    replay = traced(Op("create", "f"), write(A), write(B, SECTOR)).after()
    assert replay.after_end() == {"f": A + B}


def test_of_the_write_in_which_it_ends_whole_sectors_came_through() -> None:
    replay = traced(Op("create", "f"), write(A + A + A)).after()
    torn = write(B + B + B)
    parts = [replay.after_end(torn, part)["f"] for part in (0.0, 1 / 3, 0.6, 2 / 3, 1.0)]
    assert parts == [A + A + A, B + A + A, B + A + A, B + B + A, B + B + B]
    assert replay.after_end(write(b"xy", 1), 0.9)["f"] == A + A + A, "less than a sector did not come through"
    assert replay.after_end() == {"f": A + A + A}, "asking changes nothing"


def test_the_end_of_power_leaves_what_was_synced() -> None:
    assert cuts(traced(Op("create", "f"), write(A), *SYNCED)) == {A}


def test_and_any_part_of_what_was_not() -> None:
    """Sector by sector, in any order: the later write may come through without the earlier."""
    left = cuts(traced(write(B), write(C, SECTOR), base={"f": A + A}))
    assert left == {A + A, B + A, A + C, B + C}


def test_of_two_writes_to_one_place_either_or_none_came_through() -> None:
    assert cuts(traced(write(B), write(C), base={"f": A})) == {A, B, C}


def test_a_write_across_sectors_is_cut_at_their_edges() -> None:
    left = cuts(traced(write(b"x" * SECTOR, SECTOR // 2), base={"f": A + A}))
    half = SECTOR // 2
    assert left == {a[:half] + b + c + a[half:] for a in (A,) for b in (b"x" * half, b"a" * half) for c in (b"x" * half, b"a" * half)}


def test_the_size_may_come_through_without_the_bytes() -> None:
    zeros = bytes(SECTOR)
    assert cuts(traced(write(B, SECTOR), base={"f": A})) == {A, A + zeros, A + B}


def test_a_truncate_may_be_undone() -> None:
    assert cuts(traced(Op("truncate", "f", SECTOR), base={"f": A + B})) == {A, A + B}


def test_names_are_durable_after_a_sync_of_the_folder_only() -> None:
    created = (Op("create", "f"), write(A), Op("sync", "f"))
    assert cuts(traced(*created)) == {None, A}
    assert cuts(traced(*created, Op("sync folder"))) == {A}
    assert cuts(traced(Op("delete", "f"), base={"f": A})) == {None, A}
    assert cuts(traced(Op("delete", "f"), Op("sync folder"), base={"f": A})) == {None}


def test_a_file_that_was_made_anew_is_another_file() -> None:
    """Deleted and created under its old name: the old bytes, none, or the new ones; never a mixture."""
    made = traced(Op("delete", "f"), Op("create", "f"), write(B), Op("sync", "f"), base={"f": A + A})
    assert cuts(made) == {None, A + A, B}


def test_a_rename_is_whole_or_absent_and_as_torn_as_what_was_renamed() -> None:
    fresh = (Op("create", "new"), Op("write", "new", 0, B))
    renamed = Op("rename", "new", to="f")
    assert cuts(traced(*fresh, Op("sync", "new"), renamed, base={"f": A})) == {A, B}
    assert cuts(traced(*fresh, renamed, base={"f": A})) == {A, B, b"", bytes(SECTOR)}, "without its sync it may be empty"


def test_a_disk_that_lies_about_syncs_keeps_nothing_for_sure() -> None:
    trace = traced(write(B), Op("sync", "f"), base={"f": A})
    lying = trace.after(lying=True)
    assert {lying.after_cut(seed)["f"] for seed in range(50)} == {A, B}


def test_the_same_seed_gives_the_same_cut() -> None:
    chance = random.Random(1)
    trace = traced(*(write(bytes([n]) * SECTOR, chance.randrange(40) * SECTOR) for n in range(60)), base={"f": A * 40})
    assert all(trace.after().after_cut(seed) == trace.after().after_cut(seed) for seed in range(20))
    assert len({fingerprint(trace.after().after_cut(seed)) for seed in range(100)}) > 50


def test_every_operation_is_met_with_the_disk_before_it() -> None:
    trace = traced(Op("create", "f"), Op("told", "one"), write(A), Op("told", "two"), write(B))
    met = [(n, op.kind, replay.after_end()) for n, op, replay in trace.replays(2, 5)]
    assert met == [(2, "write", {"f": b""}), (3, "told", {"f": A}), (4, "write", {"f": A})]
    assert [trace.told(n) for n in (0, 2, 4, 5)] == [[], ["one"], ["one", "two"], ["one", "two"]]


def test_an_image_is_put_where_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    put({"f": A, "g": B}, tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"f": A, "g": B}


def test_fingerprints_tell_images_apart() -> None:
    images: list[Image] = [{}, {"f": b""}, {"f": A}, {"g": A}, {"f": A, "g": b""}, {"f": A + b"g"}]
    assert len({fingerprint(image) for image in images}) == len(images)
    assert fingerprint({"f": A, "g": B}) == fingerprint({"g": B, "f": A})

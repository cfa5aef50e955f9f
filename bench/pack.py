"""How small is a store on disk once its old entries are packed? Prints a ratio for each transcript, and for all in one store.

    python bench/pack.py [FOLDER]

Each transcript under FOLDER (default: `shared/data` beside the checkout) is imported into an SQLite store of its own, compacted
on the way, and packed; then all of them, a session each, into one store. *Text* is the sum of the entries' bodies before the
pack: JSON as it is stored, messages and what lineal records beside them. The rest
are bytes of the store's files, whole (rows, keys, indexes, states, free pages), and their share of the text: *before*; *packed*, where what
is shown stays raw; *at rest*, where everything below the head is packed. Transcripts under 100 kB have no line of their own: a store
with nothing in it has 32 kB of pages.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import lineal
from lineal import transcripts
from lineal.importing import import_transcript

LEAST = 100_000
POLICY = lineal.Policy(trigger=40_000, ceiling=50_000, target=4_000)


def sources(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every transcript: (file, number of the conversation in it)."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in (".json", ".jsonl")):
        try:
            yield from ((path, n) for n in range(len(transcripts.conversations(path)) or 1))
        except lineal.LinealError as refused:
            print(f"{path.name} is left out: {str(refused).partition('. ')[0]}", file=sys.stderr)


def size(store: Path) -> int:
    return sum(p.stat().st_size for p in store.parent.glob(f"{store.name}*"))


def measured(store: Path, found: Sequence[tuple[Path, int]]) -> tuple[int, ...]:
    """(entries, text, bytes before, packed, at rest) of a store with these transcripts."""
    with lineal.connect(store) as opened:
        for n, (path, conversation) in enumerate(found):
            session = opened.session(f"{path.stem}-{n}", POLICY)
            import_transcript(session, path, conversation=conversation, compact=True)
            session.compact()
        rows = [row.size for name in opened.sessions() for row in opened.engine.scan(name)]
    sizes = [size(store)]
    for at_rest in (False, True):
        with lineal.connect(store) as opened:
            for name in opened.sessions():
                session = opened.session(name, POLICY)
                session.pack(before=session.status().head if at_rest else None)
            assert not opened.verify().damaged
        sizes.append(size(store))
    return len(rows), sum(rows), *sizes


def line(name: str, entries: int, text: int, *sizes: int) -> str:
    return f"{name[:44]:44}{entries:>8,}{text:>12,}" + "".join(f"{n:>12,} {n / text:5.3f}" for n in sizes)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "data"
    found = [*sources(folder)]
    long = [(p, n) for p, n in found if p.stat().st_size >= LEAST and sum(q == p for q, _ in found) == 1]
    print(f"{'transcript':44}{'entries':>8}{'text':>12}{'before':>18}{'packed':>18}{'at rest':>18}")
    with tempfile.TemporaryDirectory() as made:
        for n, one in enumerate(long):
            print(line(one[0].name, *measured(Path(made) / f"{n}.db", [one])), flush=True)
        print(line(f"these {len(long)} in one store", *measured(Path(made) / "long.db", long)), flush=True)
        print(line(f"with {len(found) - len(long)} short ones, in one store", *measured(Path(made) / "all.db", found)))


if __name__ == "__main__":
    main()

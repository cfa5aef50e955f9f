"""The anchor: where each log's head was, kept outside the data file (R60).

A chain shows that nothing inside it was changed. It cannot show that its end was cut off, or that the whole file is an
older copy: for that something must be remembered elsewhere. It is moved after each append, so it may lag by one append but
never leads: a head behind the anchor, or another digest at the anchor's seq, is damage.

An anchor is a small JSON file, or an object of the caller's own (`AnchorPlace`): what it remembers is worth as much as the
place is out of reach of whoever may change the store.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lineal.errors import Corrupt, LinealError, PolicyError, Unavailable, Verdict, quoted

MOST_BYTES = 1 << 28  # an anchor of a million sessions is half as large
Head = tuple[int, str, int]  # seq, digest (hex) and epoch


@runtime_checkable
class AnchorPlace(Protocol):
    """Where heads can be remembered: an object store, a table elsewhere, a witness. Pass it as `anchor=`.

    What either method raises becomes `Unavailable`: a store is not opened against an anchor that cannot be asked.
    """

    def read(self, session: str | None = None) -> Mapping[str, Head]:
        """The head last written of this session, or of each session (None); without those that have none."""

    def write(self, session: str, head: Head) -> None:
        """Remember it; durable on return. One writer may overtake another: keep the higher seq where that is easy, a lower
        one does no harm but that it sees less."""


def _heads(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
    heads: dict[str, Any] = json.loads(data)
    return heads


def _head(name: str, value: Any) -> tuple[str, Head]:
    """One session's head, if it is what `move` writes. Raises `ValueError`."""
    if not isinstance(value, list | tuple) or [type(part) for part in value] != [int, str, int] or value[0] < 0:
        raise ValueError(f"the head of {quoted(name)} is {quoted(value)}, not [seq, digest, epoch]")
    return name, (value[0], value[1], value[2])


class HeadAnchor(ABC):
    """What a session asks of an anchor, wherever it lies."""

    @abstractmethod
    def read(self, session: str | None = None) -> dict[str, Head]:
        """The head of one session or of all. Raises `Corrupt` for what is no anchor, `Unavailable` for what cannot be read."""

    @abstractmethod
    def move(self, session: str, seq: int, digest: str, epoch: int) -> None:
        """Remember the new head durably. Raises `Unavailable`; the entry itself is durable by then."""

    def check(self, session: str, head: int, digest_at: Callable[[int], str | None]) -> None:
        """Raise `Corrupt` if the log ends before the anchor, or is not the log that was anchored."""
        known = self.read(session).get(session)
        if known is None:
            return
        seq, digest, _ = known
        if head < seq:
            raise Corrupt(session, head + 1, f"a head at seq {seq} or above", f"head {head}", "cut tail or old copy restored")
        found = digest_at(seq)
        if found != digest:
            raise Corrupt(session, seq, digest[:16], str(found)[:16], "other history than the anchored one")


def anchor_at(given: str | os.PathLike[str] | AnchorPlace | HeadAnchor | None) -> HeadAnchor | None:
    """The anchor that was meant: a file by its path, or an object with `read` and `write`. Raises `PolicyError` for anything else."""
    if given is None or isinstance(given, HeadAnchor):
        return given
    if isinstance(given, str | os.PathLike):
        return AnchorFile(given) if given else None
    if isinstance(given, AnchorPlace):
        return OwnAnchor(given)
    message = f"{quoted(given)} is no anchor."
    raise PolicyError(Verdict("anchor", "no_anchor", message=message, remedy="give a path, or an object with read and write"))


class OwnAnchor(HeadAnchor):
    """Heads in a place of the caller's own."""

    def __init__(self, place: AnchorPlace):
        self.place = place

    def read(self, session: str | None = None) -> dict[str, Head]:
        try:
            found = self.place.read(session)
        except LinealError:
            raise
        except Exception as e:  # it is not ours, and may raise anything
            raise Unavailable(f"anchor {quoted(self.place)}", e, "make it readable, or open without an anchor") from e
        try:
            return dict(_head(name, value) for name, value in found.items())
        except (ValueError, TypeError, AttributeError) as e:
            raise Corrupt(session or "", 0, "heads by session", f"{quoted(self.place)}: {e}", "unreadable anchor") from e

    def move(self, session: str, seq: int, digest: str, epoch: int) -> None:
        try:
            self.place.write(session, (seq, digest, epoch))
        except LinealError:
            raise
        except Exception as e:
            raise Unavailable(f"anchor {quoted(self.place)}", e, "make it writable; the entry itself is durable") from e


class AnchorFile(HeadAnchor):
    """Heads by session: `{"session": [seq, digest, epoch]}`, replaced atomically (write, fsync, rename, fsync of the folder)
    under a lock file beside it."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock = threading.Lock()

    def read(self, session: str | None = None) -> dict[str, Head]:
        try:
            # Not waiting for a pipe's other end; whatever is no file is refused before it is read.
            with open(self.path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise Unavailable(f"anchor {self.path}", "it is no file", "name a file, or open without an anchor")
                data = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as e:
            raise Unavailable(f"anchor {self.path}", e, "make it readable, or open without an anchor") from e
        try:
            return dict(_head(name, value) for name, value in _heads(data).items())
        except (ValueError, TypeError, AttributeError, RecursionError) as e:
            raise Corrupt("", 0, "an anchor file", f"{self.path}: {e}", "unreadable anchor") from e

    def move(self, session: str, seq: int, digest: str, epoch: int) -> None:
        """Another process's newer head is not set back."""
        with self._lock:
            try:
                # Locked from the read on: a head that another process wrote meanwhile would be lost otherwise.
                with open(self.path.with_name(f"{self.path.name}.lock"), "w") as held:
                    fcntl.flock(held, fcntl.LOCK_EX)
                    heads = self.read()
                    if heads.get(session, (0, "", 0))[0] <= seq:
                        self._replace({**heads, session: (seq, digest, epoch)})
            except OSError as e:
                raise Unavailable(f"anchor {self.path}", e, "make its folder writable; the entry itself is durable") from e

    def _replace(self, heads: dict[str, Head]) -> None:
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.{threading.get_ident()}.new")
        with open(fresh, "w") as f:
            json.dump(heads, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(fresh, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

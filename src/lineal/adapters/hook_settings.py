"""The settings file of a host, with lineal's hooks put in and taken out again. Text in, text out.

Both hosts keep hooks as `hooks.{Event}[].{matcher, hooks: [{type, command, timeout}]}`; Claude Code in `settings.json` beside
much else, Codex in `hooks.json`. The text is edited in place: what is not lineal's keeps its bytes, its order and its layout.
Before the first change the file is copied to `NAME.before-lineal`. If nothing but lineal's entries was added since, taking
them out gives back that copy, byte for byte.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineal.errors import PolicyError, Unavailable, Verdict

NOTHING = "{}\n"  # what an absent file is taken for
TIMEOUT, TIMEOUT_WHOLE = 60, 600  # seconds; the second where a whole transcript is read
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Part:
    """A member of an object, or an element of a list (`key` is None), and where it stands in the text."""

    key: str | None
    start: int
    value: int
    end: int


def entries(host: str, command: str, effects: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """What is put in: (event, group)."""

    def group(timeout: int, matcher: str | None = None) -> dict[str, Any]:
        handler = {"type": "command", "command": command, "timeout": timeout}
        return ({} if matcher is None else {"matcher": matcher}) | {"hooks": [handler]}

    tools = tool_matcher(effects)
    found = [("PreCompact", group(TIMEOUT_WHOLE)), ("PostCompact", group(TIMEOUT_WHOLE)), ("SessionStart", group(TIMEOUT_WHOLE, "compact"))]
    calls = ["PreToolUse", "PostToolUse"] + (["PostToolUseFailure"] if host == "claude-code" else [])
    return found + [(event, group(TIMEOUT, tools)) for event in calls if tools]


def tool_matcher(effects: tuple[str, ...]) -> str:
    """The regular expression by which the host chooses calls to run the hook for: at least those that a pattern can name."""
    names = {pattern.partition("(")[0] for pattern in effects}
    heads = {re.split(r"[*?[]", name)[0] + (".*" if re.search(r"[*?[]", name) else "") for name in names}
    return "|".join(sorted(heads))


def command_line(host: str, words: Sequence[str]) -> str:
    """The command as the host runs it: this Python, since a hook's PATH may be another one."""
    return shlex.join([sys.executable, "-m", "lineal", "hook", host, *words])


def is_own(host: str, handler: Any) -> bool:
    command = handler.get("command") if isinstance(handler, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # no command line at all
        return False
    return any(words[n : n + 2] == ["hook", host] and Path(words[n - 1]).stem == "lineal" for n in range(1, len(words)))


def installed(text: str, host: str, wanted: list[tuple[str, dict[str, Any]]]) -> str:
    """The text with these entries, and no older ones of lineal's. The same text if they stand there already."""
    if sorted(_own_groups(text, host), key=_event) == sorted(wanted, key=_event):
        return text
    text = uninstalled(text, host)
    for event, group in wanted:
        root = _root(text)
        if (hooks := _member(text, root, "hooks")) is None:
            text = _insert(text, root, 0, {event: [group]}, "hooks")
        elif (groups := _member(text, hooks, event)) is None:
            text = _insert(text, hooks, 1, [group], event)
        else:
            text = _insert(text, groups, 2, group)
    return text


def _event(entry: tuple[str, dict[str, Any]]) -> str:
    return entry[0]


def uninstalled(text: str, host: str) -> str:
    """The text without lineal's entries, and without what only they had filled."""
    while (place := next(_own(text, host), None)) is not None:
        for container, n in reversed(place):
            text = _removed(text, container, n)
            if _parts(text, container)[0]:
                break
    return text


def restored(text: str, host: str, before: str | None) -> str | None:
    """The text without lineal's entries: `before` itself if nothing else changed since, None for no file at all."""
    if installed(NOTHING if before is None else before, host, _own_groups(text, host)) == text:
        return before
    return uninstalled(text, host)


# --- lineal's own entries --------------------------------------------------------------------------------------------

Place = list[tuple[int, int]]  # from the root down: where a container begins, and which part of it is meant


def _own(text: str, host: str) -> Iterator[Place]:
    """The place of each handler of lineal's; of its whole group where it stands there alone. Raises `PolicyError`."""
    root = _root(text)
    for h, member in enumerate(_parts(text, root)[0]):
        if member.key != "hooks":
            continue
        for e, event in enumerate(_parts(text, _opens(text, member, "{", "hooks"))[0]):
            for g, group in enumerate(_parts(text, _opens(text, event, "[", f"hooks.{event.key}"))[0]):
                value = _DECODER.raw_decode(text, group.value)[0]
                handlers = value.get("hooks") if isinstance(value, dict) else None
                own = [n for n, one in enumerate(handlers) if is_own(host, one)] if isinstance(handlers, list) else []
                upper = [(root, h), (member.value, e), (event.value, g)]
                if own and isinstance(handlers, list):
                    inner = _member(text, group.value, "hooks") or 0
                    yield upper if len(handlers) == len(own) else [(inner, own[0])]


def _own_groups(text: str, host: str) -> list[tuple[str, dict[str, Any]]]:
    """(event, group) of what stands there of lineal's, in order of the events of `entries`."""
    found = [(str(_parts(text, place[1][0])[0][place[1][1]].key), place[2]) for place in _own(text, host) if len(place) == 3]
    return [(event, _DECODER.raw_decode(text, _parts(text, at)[0][n].value)[0]) for event, (at, n) in found]


# --- JSON text in place ----------------------------------------------------------------------------------------------


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _root(text: str) -> int:
    """Where the one object of the file begins. Raises `PolicyError` for anything that could not be given back."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key stands twice in one object")
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as e:
        raise _refused(f"it is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise _refused("it holds no object")
    return _after_space(text, 0)


def _refused(why: str) -> PolicyError:
    remedy = "correct it by hand; nothing was changed"
    return PolicyError(Verdict("hook", "settings", message=f"the settings file cannot be edited: {why}.", remedy=remedy))


def _opens(text: str, part: Part, bracket: str, name: str) -> int:
    if text[part.value] != bracket:
        raise _refused(f"{name} does not begin with {bracket}")
    return part.value


def _parts(text: str, at: int) -> tuple[list[Part], int]:
    """The parts of the object or list that begins at `at`, and where it closes."""
    found: list[Part] = []
    here = _after_space(text, at + 1)
    while text[here] not in "}]":
        start, key = here, None
        if text[at] == "{":
            key, here = _DECODER.raw_decode(text, here)
            here = _after_space(text, _after_space(text, here) + 1)
        end = _DECODER.raw_decode(text, here)[1]
        found.append(Part(key, start, here, end))
        here = _after_space(text, end)
        here = _after_space(text, here + 1) if text[here] == "," else here
    return found, here


def _member(text: str, at: int, key: str) -> int | None:
    return next((p.value for p in _parts(text, at)[0] if p.key == key), None)


def _insert(text: str, at: int, depth: int, value: Any, key: str | None = None) -> str:
    """The text with one more part at the end of the container at `at`, laid out as the file is."""
    step = re.search(r"^[ \t]+", text, re.MULTILINE)
    unit, line = step[0] if step else "  ", "\r\n" if "\r\n" in text else "\n"
    pad = line + unit * (depth + 1)
    body = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", pad)
    body = body if key is None else f"{json.dumps(key)}: {body}"
    parts, close = _parts(text, at)
    if parts:
        return f"{text[: parts[-1].end]},{pad}{body}{text[parts[-1].end :]}"
    return f"{text[: at + 1]}{pad}{body}{line}{unit * depth}{text[close:]}"


def _removed(text: str, at: int, n: int) -> str:
    parts, close = _parts(text, at)
    if len(parts) == 1:
        return text[: at + 1] + text[close:]
    return text[: parts[n - 1].end] + text[parts[n].end :] if n else text[: parts[0].start] + text[parts[1].start :]


# --- the file --------------------------------------------------------------------------------------------------------


def backup_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.before-lineal")


def read(path: Path) -> str | None:
    """The file's text, None if there is none. Raises `PolicyError`, `Unavailable`."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as e:
        raise _refused(f"it is not UTF-8: {e}") from e
    except OSError as e:
        raise Unavailable(f"settings file {str(path)!r}", e, "name a file that can be read") from e


def write(path: Path, text: str | None, like: Path) -> None:
    """Write the file whole or not at all, or take it away (None); a link stays one, and the mode is that of `like`."""
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        if text is None:
            return target.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if like.exists():
            shutil.copymode(like, fresh)
        os.replace(fresh, target)
    except OSError as e:
        fresh.unlink(missing_ok=True)
        raise Unavailable(f"settings file {str(path)!r}", e, "name a place that can be written") from e

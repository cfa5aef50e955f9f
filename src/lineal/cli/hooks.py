"""Commands for the hooks of Claude Code and Codex: answer one event, and put them into the host's settings or take them out."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lineal.cli.report import Out, as_json
from lineal.cli.stores import anchor_option, answers
from lineal.errors import Conflict

_HOSTS = ("claude-code", "codex")
_OPTIONS = (
    click.option("--store", metavar="FILE", help="The store (default: ~/.lineal/HOST.db)."),
    click.option("--effects", "effects", multiple=True, metavar="PATTERN", help="Calls that are effects: mcp__mail__*, 'Bash(git push*)'."),
    click.option("--on-lookalike", type=click.Choice(["ask", "warn", "allow"]), default="ask", help="An equal call, forgotten since."),
    click.option("--on-damage", type=click.Choice(["block", "tell"]), default="block", help="A transcript that is not whole."),
    anchor_option,
)


def hook_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.group("hook", short_help="Guard the compactions and calls of Claude Code or Codex.")
def hook() -> None:
    """Guard the compactions and the calls of Claude Code or Codex through their hooks."""


def default_store(host: str) -> str:
    return str(Path.home() / ".lineal" / f"{host}.db")


def _answer(host: str, store: str | None, effects: tuple[str, ...], **options: Any) -> None:
    from lineal.adapters.hook_event import EFFECTS
    from lineal.adapters.hooks import Hook, handle

    def hook(event: dict[str, Any]) -> Hook:
        if store is None:
            Path(default_store(host)).parent.mkdir(mode=0o700, exist_ok=True)
        return Hook(host, event, store or default_store(host), effects or EFFECTS, **options)

    answer = handle(sys.stdin.buffer.read(), hook, host)
    click.echo(as_json(answer.output, indent=None))
    if answer.error:
        click.echo(answer.error, err=True)
    if answer.code:
        click.get_current_context().exit(answer.code)


@hook.command("claude-code", short_help="Answer one hook event of Claude Code, given on stdin.")
@hook_options
def claude_code(**options: Any) -> None:
    """Answer one hook event of Claude Code: JSON on stdin, JSON on stdout. Exit code 2 stops a compaction."""
    _answer("claude-code", **options)


@hook.command("codex", short_help="Answer one hook event of Codex, given on stdin.")
@hook_options
def codex(**options: Any) -> None:
    """Answer one hook event of Codex: JSON on stdin, JSON on stdout. The exit code is always 0."""
    _answer("codex", **options)


# --- the host's settings ---------------------------------------------------------------------------------------------

_host = click.argument("host", type=click.Choice(_HOSTS))
_settings = click.option("--settings", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (default: the user's).")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def default_settings(host: str) -> Path:
    """The user's own file: `settings.json` of Claude Code, `hooks.json` of Codex."""
    if host == "codex":
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "hooks.json"
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "settings.json"


@hook.command("install", short_help="Put the hooks into the settings of a host.")
@answers
@_host
@_settings
@hook_options
@_yes
def install(out: Out, host: str, settings: Path | None, yes: bool, store: str | None, effects: tuple[str, ...], **options: Any) -> None:
    """Put the hooks into the settings file of HOST: shows the change and asks first, and keeps a copy beside it."""
    from lineal.adapters import hook_settings
    from lineal.adapters.hook_event import EFFECTS
    from lineal.transcripts import changes_state

    changes_state("", {}, effects)
    path = settings or default_settings(host)
    words = ["--store", _whole(store or default_store(host))]
    words += [word for pattern in effects for word in ("--effects", pattern)]
    given = {"--on-lookalike": options["on_lookalike"], "--on-damage": options["on_damage"]}
    words += [word for name, value in given.items() if value not in ("ask", "block") for word in (name, value)]
    words += ["--anchor", _whole(options["anchor"])] if options["anchor"] else []
    wanted = hook_settings.entries(host, hook_settings.command_line(host, words), effects or EFFECTS)
    before = hook_settings.read(path)
    text = before if before is not None else hook_settings.NOTHING
    after = hook_settings.installed(text, host, wanted)
    first = hook_settings.uninstalled(text, host) == text
    if _agreed(out, path, before, after, yes, f"Put the hooks into {path}?"):
        copy = hook_settings.backup_of(path)
        if first and before is not None:
            hook_settings.write(copy, before, like=path)
        elif first:
            copy.unlink(missing_ok=True)  # of an older file that is there no more
        _unless_changed(path, before)
        hook_settings.write(path, after, like=path)
    _told(out, host, path, "installed", before != after)
    if host == "codex" and before != after:
        out.say("Codex runs a new hook only once it was trusted: see /hooks there")


@hook.command("uninstall", short_help="Take the hooks out of the settings of a host.")
@answers
@_host
@_settings
@_yes
def uninstall(out: Out, host: str, settings: Path | None, yes: bool) -> None:
    """Take the hooks out of the settings file of HOST. If nothing else changed since, the file is again what it was."""
    from lineal.adapters import hook_settings

    path = settings or default_settings(host)
    before = hook_settings.read(path)
    there = before is not None and hook_settings.uninstalled(before, host) != before
    copy = hook_settings.backup_of(path)
    after = hook_settings.restored(before, host, hook_settings.read(copy)) if there and before is not None else before
    if _agreed(out, path, before, after, yes, f"Take the hooks out of {path}?"):
        _unless_changed(path, before)
        hook_settings.write(path, after, like=path)
        copy.unlink(missing_ok=True)
    _told(out, host, path, "uninstalled", there)


def _whole(path: str) -> str:
    """A file's path as it is from any folder; a URL as it is."""
    return path if "://" in path or path == "memory:" else os.path.abspath(os.path.expanduser(path))


def _agreed(out: Out, path: Path, before: str | None, after: str | None, yes: bool, question: str) -> bool:
    """Show what would change and ask. False if nothing would; raises `click.Abort` for a no."""
    if before == after:
        return False
    names = (str(path) if before is not None else "(no file)", str(path) if after is not None else "(no file)")
    for line in difflib.unified_diff((before or "").splitlines(), (after or "").splitlines(), *names, lineterm=""):
        out.say(line, {"+": "green", "-": "red"}.get(line[:1]))
    if not yes:
        if out.json:
            raise click.UsageError("with --json nobody can be asked: say --yes")
        click.confirm(question, abort=True, err=True)
    return True


def _unless_changed(path: Path, before: str | None) -> None:
    from lineal.adapters import hook_settings

    if hook_settings.read(path) != before:
        raise Conflict(str(path), 0, 0, "the settings file was changed by somebody else meanwhile; nothing was written")


def _told(out: Out, host: str, path: Path, what: str, changed: bool) -> None:
    out.give({"host": host, "settings": str(path), what: True, "changed": changed})
    out.say(f"hooks of {host} {what}: {path}" if changed else f"nothing to do: hooks of {host} are {what} in {path}")

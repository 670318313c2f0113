"""What a process has from its caller and a forked one would not have: environment, limits, flags of Python.

A verb that differs from the worker in one of the traits that Java, or an imported library, has already looked at runs
without the worker. All others are taken over by the process that is forked for the verb.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.model.version import __version__

# Variables that differ between two terminals of a user, and our own, which Java does not read. They reach the verb and
# its Python workers, and are no part of Java's environment.
_PER_VERB = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM|TERM_.*|COLORTERM|COLORFGBG|COLUMNS|LINES|LS_COLORS|LESS.*|PAGER|EDITOR|VISUAL|MAIL|PS[1-4]"
    r"|PROMPT_COMMAND|HIST.*|SSH_.*|TMUX.*|STY|WINDOW|WINDOWID|WINDOWPATH|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY"
    r"|XDG_SESSION_.*|XDG_SEAT.*|XDG_VTNR|DBUS_SESSION_BUS_ADDRESS|GPG_TTY|GPG_AGENT_INFO|VTE_VERSION|VSCODE_.*"
    r"|ITERM_.*|KITTY_.*|ALACRITTY_.*|GNOME_TERMINAL_.*|KONSOLE_.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_EXEC_PID"
    r"|MANAGERPID|NOTIFY_SOCKET|WATCHDOG_USEC|WATCHDOG_PID|MAKEFLAGS|MAKELEVEL|MFLAGS|MAKE_.*|VIRTUAL_ENV_PROMPT|PYTEST_.*|HEADRACE_.*"
)
_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_STACK", "RLIMIT_CPU", "RLIMIT_FSIZE")
_NAMESPACES = ("mnt", "net", "pid", "user", "uts")


def is_per_verb(variable: str) -> bool:
    """Whether a variable may differ between the worker and a verb."""
    return _PER_VERB.fullmatch(variable) is not None


def traits(environ: Mapping[str, str]) -> dict[str, Any]:
    """What must be the same in the worker and in a verb; texts and numbers only."""
    return {
        "version": __version__,
        "python": [sys.executable, sys.prefix, sys.version, *map(str, sys.flags), *sys.warnoptions],
        "package": str(Path(__file__).parent),
        "limits": {name: list(resource.getrlimit(getattr(resource, name))) for name in _LIMITS},
        "namespaces": [_namespace(name) for name in _NAMESPACES],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "groups": sorted({os.getgid(), os.getegid(), *os.getgroups()}),
        "environment": {name: value for name, value in sorted(environ.items()) if not is_per_verb(name)},
    }


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of what differs, variables by their names; values may be secret."""
    return [*_differing(one["environment"], other.get("environment") or {}), *_others(one, other)]


def ignored_signals() -> list[int]:
    """The signals that this process ignores because its caller does, as `nohup` does."""
    known = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    return [int(number) for number in known if signal.getsignal(number) is signal.SIG_IGN]


def _others(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name in _differing(one, other):
        if name != "environment":
            yield f"its {name}"


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def _namespace(name: str) -> str:
    try:
        return str(Path("/proc/self/ns", name).readlink())
    except OSError:
        return ""

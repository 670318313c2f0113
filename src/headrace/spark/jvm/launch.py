"""Launches the JVM without its settings on the command line, which every user of the machine can read.

Spark reads the settings from one file, and Java its options from another. Both are in a folder that only this user can
open, and that is removed once the JVM has started. The JVM ignores SIGTERM.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from headrace.connectors.java import started_by_option
from headrace.errors import PipelineError

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SHELL = "pyspark-shell"
_OPTION_KEYS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_FILE_OPTION = "--properties-file"
# The variable with a file that bash reads before a script.
_SCRIPT_START = "BASH_ENV"


@contextmanager
def settings_in_file(settings: Mapping[str, str], folder: Path | None, mark: str | None = None) -> Iterator[None]:
    """Make ``launch_gateway`` read settings from a file inside the block; its own argument would expose them.

    Args:
        settings: the settings for ``spark-submit``.
        folder: the JVM's working directory, to which paths in ``PYSPARK_SUBMIT_ARGS`` are relative.
        mark: the option for Java that says who has started it (default: this process).

    Raises:
        PipelineError: SETTINGS.JAVA_OPTIONS if the options for Java cannot be parsed.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-start-") as name:
        files = Path(name)
        arguments, their_settings = _without_file(shlex.split(os.environ.get(_ARGUMENTS, _SHELL)), folder)
        # With a settings file, Spark ignores its defaults, unless it gets this option.
        defaults = ["--load-spark-defaults"] if their_settings is None else []
        own_settings = _with_options_in_file(settings, files, mark or _mark_of_this_process())
        text = f"{their_settings or ''}\n{properties_text(own_settings)}"
        file = _written(files / "settings", text)
        words = shlex.join([_FILE_OPTION, str(file), *defaults, *arguments])
        start = _written(files / "start", _ignoring_sigterm(os.environ.get(_SCRIPT_START)))
        with _variables({_ARGUMENTS: words, _SCRIPT_START: str(start)}):
            yield


def properties_text(settings: Mapping[str, str]) -> str:
    """Settings in the format of ``java.util.Properties``."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def arguments_text(options: str) -> str:
    """Options for Java, quoted as for a shell, in the format of ``java @FILE``.

    Raises:
        ValueError: a quotation is not closed.
    """
    return "".join(f"{_quoted(option)}\n" for option in shlex.split(options))


def _mark_of_this_process() -> str:
    me = psutil.Process()
    return started_by_option(me.pid, me.create_time())


def _with_options_in_file(settings: Mapping[str, str], folder: Path, mark: str) -> dict[str, str]:
    """The settings, with Java's options replaced by a file, and with a mark of the process that starts this Java."""
    options = [settings[key] for key in _OPTION_KEYS if settings.get(key)]
    try:
        file = _written(folder / "java-options", "".join(map(arguments_text, options)))
    except ValueError as error:
        raise PipelineError("SETTINGS.JAVA_OPTIONS", key=_OPTION_KEYS[-1], reason=str(error).lower()) from None
    others = {key: value for key, value in settings.items() if key not in _OPTION_KEYS}
    return {**others, _OPTION_KEYS[-1]: f"{mark} {shlex.quote(f'@{file}')}"}


def _without_file(arguments: list[str], folder: Path | None) -> tuple[list[str], str | None]:
    """The arguments without a settings file, and the content of that file: ``spark-submit`` accepts only one."""
    kept: list[str] = []
    text: str | None = None
    words = iter(arguments)
    for word in words:
        option, _, value = word.partition("=")
        if option == _FILE_OPTION:
            text = ((folder or Path.cwd()) / (value or next(words, ""))).read_text(encoding="utf-8")
        else:
            kept.append(word)
    return kept, text


def _ignoring_sigterm(before: str | None) -> str:
    """The start of a script whose JVM ignores SIGTERM.

    Service managers send it to all processes at once. This process stops the update, and the JVM ends with it.
    """
    restored = f"export {_SCRIPT_START}={shlex.quote(before)}; . {shlex.quote(before)}" if before else ""
    return f"trap '' TERM\nunset {_SCRIPT_START}\n{restored}\n"


@contextmanager
def _variables(new: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _written(file: Path, text: str) -> Path:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return file


def _escaped(text: str) -> str:
    units = (int.from_bytes(pair, "big") for pair in _pairs(text.encode("utf-16-be", "surrogatepass")))
    return "".join(chr(unit) if chr(unit).isalnum() and unit < 128 else f"\\u{unit:04x}" for unit in units)


def _pairs(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 2] for at in range(0, len(data), 2))


def _quoted(option: str) -> str:
    for letter, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\f", "\\f")):
        option = option.replace(letter, written)
    return f'"{option}"'

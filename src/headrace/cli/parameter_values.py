"""The values of options and arguments. Typer imports pydantic for them, which takes as long as the rest of `status`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import EnumType
from functools import partial
from pathlib import Path
from typing import Any


def with_plain_values(command: Any) -> Any:
    """The command and its parts, with texts, paths, words of a list and defaults taken as they are.

    Typer converts all other values, and reports those that are wrong.
    """
    command.get_params = partial(_plain_parameters, command.get_params)
    for part in getattr(command, "commands", {}).values():
        if part is not None:
            with_plain_values(part)
    return command


def _plain_parameters(get_params: Callable[[Any], list[Any]], context: Any) -> list[Any]:
    found = get_params(context)
    for parameter in found:
        if "process_value" not in vars(parameter):
            parameter.process_value = partial(_processed, parameter, parameter.process_value)
    return found


def _processed(parameter: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """The value of a parameter, as Typer's ``process_value`` returns it."""
    if value is None and not parameter.required:
        found = () if parameter.multiple or parameter.nargs == -1 else None
        return found if parameter.callback is None else parameter.callback(context, parameter, found)
    if parameter.callback is None and not parameter.multiple and parameter.nargs == 1:
        found = value if value is parameter.default else _converted(parameter, value)
        if found is not None:
            return found
    return process(context, value)


def _converted(parameter: Any, value: Any) -> Any:
    """A text as the type of its parameter; None if Typer has to convert it."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if not isinstance(value, str):
        return None
    if kind is str:
        return value
    if kind is Path:
        return Path(value)
    choices: Iterable[Any] = kind.__members__.values() if isinstance(kind, EnumType) else ()
    return next((choice for choice in choices if choice.value == value), None)

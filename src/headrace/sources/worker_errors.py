"""Relays problems from Spark's Python workers to the driver, in the text of an exception."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from headrace.errors import PipelineError, Problems, problems_of

# Separates the text for people from the same as JSON.
_MARK = "headrace.problem="
_Function = TypeVar("_Function", bound=Callable[..., Any])


class SourceFailed(Exception):
    """A source failed; the text says why, for people and as JSON."""


def relay_problems(function: _Function) -> _Function:
    """Decorate *function*, so that its problems reach the driver with their codes and parameters.

    Raises:
        SourceFailed: instead of ``PipelineError`` and ``Problems``.
    """
    if isgeneratorfunction(function):

        @wraps(function)
        def generator(*arguments: Any, **options: Any) -> Iterator[Any]:
            try:
                yield from function(*arguments, **options)
            except (PipelineError, Problems) as error:
                raise _failure(error) from None

        return generator  # type: ignore[return-value]  # a generator stays one

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (PipelineError, Problems) as error:
            raise _failure(error) from None

    return call  # type: ignore[return-value]  # the same arguments and result


def relayed_problem(text: str) -> tuple[str, dict[str, str]] | None:
    """Code and parameters of the problem in an exception's text; None for any other exception."""
    if _MARK not in text:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, text.rindex(_MARK) + len(_MARK))
    except ValueError:
        # The text was truncated.
        return None
    return found["code"], found["params"]


def _failure(error: PipelineError | Problems) -> SourceFailed:
    first = problems_of(error)[0]
    text = " ".join(filter(None, (f"{first.message}.", first.detail, first.hint)))
    document = json.dumps({"code": first.code, "params": first.params})
    return SourceFailed(f"[{first.code}] {text} {_MARK}{document}")

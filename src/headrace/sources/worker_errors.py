"""Problems that arise in Spark's Python workers, on their way to the driver as the text of an exception."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from headrace.errors import PipelineError, Problems, problems_of

# Between what is for people and the same for programs.
_MARK = "headrace.problem="
_Function = TypeVar("_Function", bound=Callable[..., Any])


class SourceFailed(Exception):
    """A source cannot go on; the text says why, for people and for programs."""


def telling(function: _Function) -> _Function:
    """Let what *function* raises on purpose reach the driver with its code and parameters.

    Raises:
        SourceFailed: in the place of ``PipelineError`` and ``Problems``.
    """
    if isgeneratorfunction(function):

        @wraps(function)
        def yielding(*arguments: Any, **options: Any) -> Iterator[Any]:
            try:
                yield from function(*arguments, **options)
            except (PipelineError, Problems) as error:
                raise _failure(error) from None

        return yielding  # type: ignore[return-value]  # a generator stays one

    @wraps(function)
    def calling(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (PipelineError, Problems) as error:
            raise _failure(error) from None

    return calling  # type: ignore[return-value]  # the same arguments and result


def problem_told(text: str) -> tuple[str, dict[str, str]] | None:
    """Code and parameters of the problem that an exception's text tells; None for another exception."""
    if _MARK not in text:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, text.rindex(_MARK) + len(_MARK))
    except ValueError:
        # Cut off on its way.
        return None
    return found["code"], found["params"]


def _failure(error: PipelineError | Problems) -> SourceFailed:
    first = problems_of(error)[0]
    said = " ".join(filter(None, (f"{first.message}.", first.detail, first.hint)))
    document = json.dumps({"code": first.code, "params": first.params})
    return SourceFailed(f"[{first.code}] {said} {_MARK}{document}")

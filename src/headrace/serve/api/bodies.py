"""What a request sends: the key, and the object with its fields; everything that is wrong is reported at once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headrace.errors import PipelineError, raise_all
from headrace.project.requests.request import RETRY_PREFIX
from headrace.serve.api.routes import (
    LONGEST_QUERY,
    LONGEST_TEXT,
    MOST_HOURS,
    MOST_ITEMS,
    MOST_ROWS,
    MOST_SECONDS,
    ApiRoute,
    BodyField,
    FieldKind,
)

JSON_TYPE = "application/json"
# The longest command line is far longer; the file of all requests has many of them.
_MOST_CHARACTERS = 8200
_KEY = re.compile(r"[A-Za-z0-9._:@-]{1,100}")
# The scheduler and the queue make such ids themselves.
_RESERVED = ("schedule-", RETRY_PREFIX)


@dataclass(frozen=True)
class Body:
    """The fields of a request that are there, checked; and the names in its path."""

    values: Mapping[str, Any] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)

    def names(self, name: str) -> Sequence[str]:
        """A list of names; empty if it is left out."""
        return tuple(self.values.get(name, ()))

    def text(self, name: str) -> str:
        """A text; empty if it is left out."""
        return str(self.values.get(name, ""))

    def flag(self, name: str) -> bool:
        """Whether a flag is set."""
        return bool(self.values.get(name, False))

    def whole(self, name: str, default: int) -> int:
        """A whole number."""
        return int(self.values.get(name, default))

    def hours(self, name: str, default: float) -> float:
        """A number of hours."""
        return float(self.values.get(name, default))


def checked_key(keys: Sequence[str]) -> str | None:
    """The id of a request, as its headers have it; None without one.

    Raises:
        PipelineError: API.KEY.
    """
    if not keys:
        return None
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]) or keys[0].startswith(_RESERVED):
        raise PipelineError("API.KEY", key=keys[0][:LONGEST_TEXT])
    return keys[0]


def parsed_body(route: ApiRoute, content: bytes, path: Mapping[str, str]) -> Body:
    """The body of a request.

    Args:
        route: which fields it has.
        content: what was sent.
        path: the names in the path.

    Raises:
        PipelineError: API.BODY.
        Problems: API.FIELD.
    """
    try:
        document = json.loads(content, parse_constant=_refuse) if content.strip() else {}
    except (ValueError, RecursionError):
        raise PipelineError("API.BODY") from None
    if not isinstance(document, dict):
        raise PipelineError("API.BODY")
    return checked_body(route, document, path)


def checked_body(route: ApiRoute, document: Mapping[str, Any], path: Mapping[str, str]) -> Body:
    """The fields of a request, and the names in its path, checked.

    Args:
        route: which fields it has.
        document: the fields that were sent.
        path: the names in the path.

    Raises:
        Problems: API.FIELD.
    """
    known = {one.name: one for one in route.fields}
    problems = [
        PipelineError("API.FIELD", what=f'field "{name[:50]}"', reason="it is unknown")
        for name in document
        if name not in known
    ]
    for name, value in document.items():
        reason = _problem(known[name], value) if name in known else None
        if reason is not None:
            problems.append(PipelineError("API.FIELD", what=f'field "{name}"', reason=reason))
    for name, text in path.items():
        reason = _text_problem(text)
        if reason is not None:
            problems.append(PipelineError("API.FIELD", what=f"the {name} in the path", reason=reason))
    if sum(map(len, _texts(document))) > _MOST_CHARACTERS:
        reason = f"all names and texts together have more than {_MOST_CHARACTERS} characters"
        problems.append(PipelineError("API.FIELD", what="the body", reason=reason))
    raise_all(problems)
    return Body(document, path)


def _problem(one: BodyField, value: Any) -> str | None:
    """Why a value does not fit a field; None if it does."""
    match one.kind:
        case FieldKind.FLAG:
            return None if isinstance(value, bool) else "it must be true or false"
        case FieldKind.TEXT:
            return _text_problem(value)
        case FieldKind.HOURS:
            return None if _is_between(value, 0, MOST_HOURS) else f"it must be a number from 0 to {MOST_HOURS}"
        case FieldKind.SECONDS:
            return None if _is_between(value, 1, MOST_SECONDS) else f"it must be a number from 1 to {MOST_SECONDS}"
        case FieldKind.ROWS:
            is_whole = isinstance(value, int) and _is_between(value, 1, MOST_ROWS)
            return None if is_whole else f"it must be a whole number from 1 to {MOST_ROWS}"
        case FieldKind.QUERY:
            return _query_problem(value)
        case FieldKind.NAMES:
            if not isinstance(value, list) or len(value) > MOST_ITEMS:
                return f"it must be a list of up to {MOST_ITEMS} texts"
            return next((reason for item in value if (reason := _text_problem(item)) is not None), None)


def _is_between(value: Any, least: float, most: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and least <= value <= most


def _query_problem(value: Any) -> str | None:
    """Why a value is no query; None if it may be one."""
    if not isinstance(value, str) or not 0 < len(value.strip()) <= len(value) <= LONGEST_QUERY:
        return f"it must be a text of 1 to {LONGEST_QUERY} characters"
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        return "it has characters that no query has"
    return None


def _text_problem(value: Any) -> str | None:
    """Why a value cannot be an argument of a command; None if it can."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_TEXT:
        return f"it must be a text of 1 to {LONGEST_TEXT} characters"
    if any(ord(char) < ord(" ") or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in value):
        return "it has characters that cannot be printed"
    return None


def _texts(document: Mapping[str, Any]) -> Iterable[str]:
    for value in document.values():
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)

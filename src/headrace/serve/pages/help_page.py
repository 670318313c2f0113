"""What an error or a warning means, and what to do: the page of its code, and the list of all codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from headrace.errors import PipelineError, conditions
from headrace.model.warning_codes import warning_codes
from headrace.options.nearest import did_you_mean
from headrace.serve.pages.paging import part_of
from headrace.serve.render import Page

_EACH_PART = 60
_MOST_WORDS = 12
_PLACEHOLDER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ONLY_PARAMETER = re.compile(r"\{\w+\}\.?")


def help_index(text: str = "", number: int = 1) -> Page:
    """The list of all codes, or of those with all words of a text.

    Args:
        text: words of a code, a message, a meaning or a hint, in any case.
        number: the part of the list that is shown.
    """
    words = text.casefold().split()[:_MOST_WORDS]
    found = [one for one in _entries() if all(word in one["searched"] for word in words)]
    # Codes that have the words come before texts that have them.
    found.sort(key=lambda one: not all(word in one["code"].casefold() for word in words))
    part, paging = part_of(found, number, _EACH_PART)
    shown = [{name: value for name, value in one.items() if name != "searched"} for one in part]
    document = {"query": text, "all": len(_entries()), "paging": paging, "codes": shown}
    return Page("codes.html", "Error codes", document)


@cache
def _entries() -> tuple[dict[str, Any], ...]:
    return tuple(sorted(_codes(), key=lambda one: one["code"]))


def _codes() -> Iterator[dict[str, Any]]:
    """Every code with its message, and the text that is searched."""
    for code, condition in conditions().items():
        texts = (condition.message, condition.detail, condition.meaning, condition.hint)
        message, *more = (_PLACEHOLDER.sub(r"<\1>", text) for text in texts)
        yield {
            "code": code,
            "kind": "error",
            "message": message,
            "searched": " ".join((code, message, *more)).casefold(),
        }
    for code, warning in warning_codes().items():
        searched = f"{code} {warning.meaning} {warning.hint}".casefold()
        yield {"code": code, "kind": "warning", "message": warning.meaning, "searched": searched}


def help_page(code: str) -> Page:
    """The page of a code.

    Raises:
        PipelineError: SERVE.NO_PAGE if there is no such code.
    """
    code = code.upper()
    condition, warning = conditions().get(code), warning_codes().get(code)
    if condition is not None:
        detail = "" if _ONLY_PARAMETER.fullmatch(condition.detail) else condition.detail
        texts = (condition.message, detail, condition.meaning, condition.hint)
        message, detail, meaning, hint = (_PLACEHOLDER.sub(r"<\1>", text).strip() for text in texts)
    elif warning is not None:
        message, detail, meaning, hint = "a warning of the event log", "", warning.meaning, warning.hint
    else:
        known = [*conditions(), *warning_codes()]
        near = get_close_matches(code, known, n=1)
        raise PipelineError("SERVE.NO_PAGE", what=f'code "{code}"', suggestion=did_you_mean(code, near))
    document = {"code": code, "message": message, "detail": detail, "meaning": meaning, "what_to_do": hint}
    return Page("help.html", code, document)

"""What an error or a warning means, and what to do: the page of its code."""

from __future__ import annotations

import re
from difflib import get_close_matches

from headrace.errors import PipelineError, conditions
from headrace.model.warning_codes import warning_codes
from headrace.options.nearest import did_you_mean
from headrace.serve.render import Page

_PLACEHOLDER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ONLY_PARAMETER = re.compile(r"\{\w+\}\.?")


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

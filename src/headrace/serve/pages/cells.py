"""Values of rows as cells of a table: bounded, and without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from headrace.model.rows import instant_text, json_value

MOST_CHARACTERS = 300

Redact = Callable[[str], str]


def cell(value: Any, redact: Redact) -> dict[str, Any]:
    """A value as the command line shows it. Secrets go before it is cut: half of one would not be found."""
    shown = _redacted(json_value(value), redact)
    if isinstance(shown, dict | list):
        text = json.dumps(shown, ensure_ascii=False)
        return cut(text, MOST_CHARACTERS) if len(text) > MOST_CHARACTERS else {"value": shown, "is_cut": False}
    return cut(shown, MOST_CHARACTERS) if isinstance(shown, str) else {"value": shown, "is_cut": False}


def instant_cell(value: Any, redact: Redact) -> dict[str, Any]:
    """The same, but times are instants, which are shown in UTC."""
    return cell(instant_text(value) if isinstance(value, datetime) else value, redact)


def cut(text: str, most: int) -> dict[str, Any]:
    """A text as a cell of so many characters."""
    return {"value": text[:most], "is_cut": len(text) > most}


def _redacted(value: Any, redact: Redact) -> Any:
    """Without secrets, also in the keys of maps."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): _redacted(item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list) else value

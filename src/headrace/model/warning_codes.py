"""What the codes of warnings in the event log mean, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class WarningCode:
    """The code of a warning: what has happened, and what the reader can do."""

    code: str
    meaning: str
    hint: str


@cache
def warning_codes() -> Mapping[str, WarningCode]:
    """Every code of a warning that is not also an error, in the order of the file."""
    raw = tomllib.loads(files("headrace.model").joinpath("warning_codes.toml").read_text(encoding="utf-8"))
    return {code: WarningCode(code, **entry) for code, entry in raw.items()}

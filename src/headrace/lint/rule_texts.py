"""The texts of the lint rules, which are data: ``rules.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def rule_texts() -> Mapping[str, Mapping[str, str]]:
    """The texts of each rule by its id, in the order of the file; its head explains them."""
    raw: dict[str, dict[str, str]] = tomllib.loads(
        files("headrace.lint").joinpath("rules.toml").read_text(encoding="utf-8")
    )
    return raw

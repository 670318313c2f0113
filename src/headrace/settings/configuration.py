"""Reads the entries of ``configuration`` that mean something to Headrace, and checks them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from headrace.model.dead_letter_policy import (
    FAILING_ROWS_KEYS,
    NO_DEAD_LETTERS,
    DeadLetterPolicy,
    InvalidDeadLetterPolicy,
)
from headrace.model.flow_confs import wrong_flow_confs
from headrace.model.pipeline_keys import UPDATE_RETRIES_KEY
from headrace.model.sequence_conflicts import ON_TIE_KEY, OnTie
from headrace.model.tombstone_retention import DEFAULT_RETENTION, RETENTION_KEYS, Retention, is_seconds

WHOLE = re.compile(r"[0-9]{1,9}")
# Takes a key, what is wrong with it, and what to write.
Wrong = Callable[[str, str, str], None]


def check_flow_confs(configuration: Mapping[str, str], wrong: Wrong) -> None:
    """Check the keys of this package that flows may set, too."""
    for found in wrong_flow_confs(configuration):
        wrong(f"configuration.{found.key}", found.reason, found.hint)


def update_retries_of(configuration: Mapping[str, str], default: int, wrong: Wrong) -> int:
    """How often a scheduler starts a failed update again."""
    written = configuration.get(UPDATE_RETRIES_KEY)
    if written is None:
        return default
    if not WHOLE.fullmatch(written):
        wrong(f"configuration.{UPDATE_RETRIES_KEY}", "it is not a whole number", "Write 0 or more.")
        return default
    return int(written)


def dead_letters_of(configuration: Mapping[str, str], wrong: Wrong) -> DeadLetterPolicy:
    """How records that fail processing are handled."""
    found = NO_DEAD_LETTERS
    for key in sorted(FAILING_ROWS_KEYS & configuration.keys()):
        try:
            found = found.with_confs({key: configuration[key]})
        except InvalidDeadLetterPolicy as invalid:
            wrong(f"configuration.{key}", str(invalid), "Correct it, or leave it out.")
    return found


def change_settings_of(configuration: Mapping[str, str], wrong: Wrong) -> tuple[Retention, OnTie]:
    """The tombstone retention and the handling of sequence conflicts of change flows."""
    for key in RETENTION_KEYS & configuration.keys():
        if not is_seconds(configuration[key]):
            wrong(f"configuration.{key}", "it is not a whole number", "Write seconds, 0 or more.")
    if ON_TIE_KEY in configuration and OnTie.of(configuration[ON_TIE_KEY]) is None:
        reason = f'"{configuration[ON_TIE_KEY]}" is not one of {", ".join(OnTie)}'
        wrong(f"configuration.{ON_TIE_KEY}", reason, "Write one of them, or leave it out.")
    return DEFAULT_RETENTION.with_confs(configuration), OnTie.RESOLVE.with_confs(configuration)

"""What is done about change events that have the same key and sequence, and are not the same."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

# On a table or in the pipeline's configuration.
ON_TIE_KEY = "headrace.cdc.on_tie"


class OnTie(str, Enum):
    """The values that the key can have."""

    RESOLVE = "resolve"  # the same one wins whatever order they come in
    FAIL = "fail"  # the batch fails
    QUARANTINE = "quarantine"  # all of a batch that tie with another one of it are set aside

    @staticmethod
    def of(text: str) -> OnTie | None:
        """The value that a text names, whatever its case; None when it names none."""
        return next((one for one in OnTie if one.value == text.strip().casefold()), None)

    def with_confs(self, confs: Mapping[str, str]) -> OnTie:
        """What the confs say, and this where they do not, or name none."""
        return (OnTie.of(confs[ON_TIE_KEY]) if ON_TIE_KEY in confs else None) or self

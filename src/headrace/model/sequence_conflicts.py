"""What to do about sequence conflicts: different change events with the same key and sequence."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

# Set on a table or in the pipeline's configuration.
ON_TIE_KEY = "headrace.cdc.on_tie"


class OnTie(str, Enum):
    """The values of the key."""

    RESOLVE = "resolve"  # the same event wins in whatever order they arrive
    FAIL = "fail"  # the batch fails
    QUARANTINE = "quarantine"  # all conflicting events of a batch are quarantined

    @staticmethod
    def of(text: str) -> OnTie | None:
        """The value for a text, in any case; None if the text is invalid."""
        return next((one for one in OnTie if one.value == text.strip().casefold()), None)

    def with_confs(self, confs: Mapping[str, str]) -> OnTie:
        """The value in *confs*, or this one if it is absent or invalid."""
        return (OnTie.of(confs[ON_TIE_KEY]) if ON_TIE_KEY in confs else None) or self

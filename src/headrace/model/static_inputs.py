"""Which rows of static inputs (tables and files) a stream reads."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.triggers import InvalidInterval, parse_interval_s

# Set on a flow or in the pipeline's configuration.
STATIC_INPUTS_KEY = "headrace.static_inputs"
_NEWEST, _START = "newest", "start"


class InvalidStaticInputs(ValueError):
    """An invalid value of the key; the text says why."""


@dataclass(frozen=True)
class StaticInputs:
    """The value of the key.

    Attributes:
        pinned: Delta tables are read as of the start of the query; otherwise each batch reads the newest rows.
        relist_interval_s: how often to re-list folders of files while a query runs; None: only when it starts.
    """

    pinned: bool = False
    relist_interval_s: float | None = None

    @classmethod
    def of(cls, text: str | None) -> StaticInputs:
        """The value from a text; the default for None.

        Raises:
            InvalidStaticInputs: the text is invalid.
        """
        word = _NEWEST if text is None else text.strip().casefold()
        if word in (_NEWEST, _START):
            return cls(pinned=word == _START)
        try:
            return cls(relist_interval_s=parse_interval_s(word))
        except InvalidInterval:
            raise InvalidStaticInputs(f'"{text}" is not {_NEWEST}, {_START} or an interval') from None

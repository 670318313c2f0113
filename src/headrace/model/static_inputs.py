"""Which rows a stream finds in tables and files that it reads beside its streams."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.triggers import InvalidInterval, parse_interval_s

# On a flow, or in the pipeline's configuration.
STATIC_INPUTS_KEY = "headrace.static_inputs"
_NEWEST, _START = "newest", "start"


class InvalidStaticInputs(ValueError):
    """A value that the key cannot have; the text says why."""


@dataclass(frozen=True)
class StaticInputs:
    """What the key says.

    Attributes:
        pinned: Delta tables are read as they are when the query starts; otherwise each batch reads the newest rows.
        listed_every_s: how often folders of files are listed anew while a query runs; None means when it starts.
    """

    pinned: bool = False
    listed_every_s: float | None = None

    @classmethod
    def of(cls, text: str | None) -> StaticInputs:
        """What a text says; None where nobody says anything.

        Raises:
            InvalidStaticInputs: it says something else.
        """
        word = _NEWEST if text is None else text.strip().casefold()
        if word in (_NEWEST, _START):
            return cls(pinned=word == _START)
        try:
            return cls(listed_every_s=parse_interval_s(word))
        except InvalidInterval:
            raise InvalidStaticInputs(f'"{text}" is not {_NEWEST}, {_START} or an interval') from None

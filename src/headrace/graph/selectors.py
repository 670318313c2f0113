"""The grammar of selections: ``orders``, ``orders+``, ``+orders``, ``tag:nightly``, ``state:modified+`` and so on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from headrace.errors import PipelineError
from headrace.options.nearest import did_you_mean

_METHOD = re.compile(r"([\w-]*)\s*:(.*)", re.DOTALL)
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")


class Method(str, Enum):
    """What a selector compares with its value. Only NAME has no prefix."""

    NAME = "name"
    TAG = "tag"
    KIND = "kind"
    SOURCE = "source"
    STATE = "state"


_PREFIXED = tuple(method for method in Method if method is not Method.NAME)


@dataclass(frozen=True)
class Selector:
    """A set of datasets, as the user describes it.

    Attributes:
        method: what is compared.
        value: with what. A name keeps its backticks, which belong to its spelling.
        above: also everything that the datasets read, directly or indirectly.
        below: also everything that reads them, directly or indirectly.
    """

    method: Method
    value: str
    above: bool = False
    below: bool = False

    @property
    def is_plain(self) -> bool:
        """True for the name of one dataset."""
        return self.method is Method.NAME and not (self.above or self.below)

    def __str__(self) -> str:
        value = self.value
        if self.method is not Method.NAME:
            needs_quotes = value != value.strip() or value.endswith("+") or "`" in value
            value = f"{self.method.value}:" + ("`" + value.replace("`", "``") + "`" if needs_quotes else value)
        return f"{'+' if self.above else ''}{value}{'+' if self.below else ''}"


def parse_selector(text: str) -> Selector:
    """Parse one selector. Everything in backticks is a name, or the value of a prefix, whatever it contains.

    Raises:
        PipelineError: SELECTION.UNKNOWN_METHOD or SELECTION.NO_VALUE.
    """
    rest = text.strip()
    above, below = rest.startswith("+"), rest.endswith("+") and len(rest) > 1
    rest = rest[above : len(rest) - below].strip()
    match = _METHOD.fullmatch(rest)
    if match is None:
        if not rest:
            raise PipelineError("SELECTION.NO_VALUE", selector=text)
        return Selector(Method.NAME, rest, above, below)
    word, value = match[1].casefold(), match[2].strip()
    method = next((known for known in _PREFIXED if known.value == word), None)
    if method is None:
        suggestion = did_you_mean(word, [known.value for known in _PREFIXED], "The prefixes are")
        raise PipelineError("SELECTION.UNKNOWN_METHOD", selector=text, method=match[1], suggestion=suggestion)
    if not value:
        raise PipelineError("SELECTION.NO_VALUE", selector=text)
    quoted = _QUOTED.fullmatch(value)
    return Selector(method, quoted[1].replace("``", "`") if quoted else value, above, below)


def is_plain_name(text: str) -> bool:
    """True if a text names one dataset, and its prefixes and signs mean nothing else."""
    try:
        return parse_selector(text).is_plain
    except PipelineError:
        return False

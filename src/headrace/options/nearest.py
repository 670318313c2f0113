"""Suggests the known name that a misspelled one probably means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that *name* probably means; None if no name is close."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def did_you_mean(text: str, known: list[str], listing: str = "The pipeline defines") -> str:
    """A sentence that names the nearest of *known*, or lists them if none is near, with *listing* before them."""
    close = difflib.get_close_matches(text.casefold(), {name.casefold(): name for name in known}, n=1, cutoff=0.6)
    if close:
        return f'Did you mean "{next(name for name in known if name.casefold() == close[0])}"?'
    listed = ", ".join(f'"{name}"' for name in sorted(known)[:8])
    return f"{listing} {listed}{' and more' if len(known) > 8 else ''}." if known else ""

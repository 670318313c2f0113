"""Notices to the user of a script; each is shown once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Notices:
    """Shows notices.

    Args:
        say: shows one.
    """

    say: Callable[[str], None]
    _shown: set[str] = field(default_factory=set)

    def once(self, text: str) -> None:
        """Show a notice, unless it was shown before."""
        if text not in self._shown:
            self._shown.add(text)
            self.say(text)

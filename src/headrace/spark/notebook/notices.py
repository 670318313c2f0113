"""Remarks to the person who runs a script: each is told once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Notices:
    """Tells remarks.

    Args:
        say: tells one.
    """

    say: Callable[[str], None]
    _said: set[str] = field(default_factory=set)

    def once(self, text: str) -> None:
        """Tell a remark that was not told yet."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)

"""Parts of a storage that a page reads, as facts: what cannot be read is said, and the rest is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.assistant.doctor.facts import Unread


def unread_facts(unread: Iterable[Unread]) -> list[dict[str, Any]]:
    """What could not be read, each part once, with the reason and what to do."""
    found = dict.fromkeys((one.part, one.reason, one.path or None, one.next_step or None) for one in unread)
    names = ("part", "reason", "path", "what_to_do")
    return [dict(zip(names, values, strict=True)) for values in found]

"""Addresses in texts for people, without what they may hold besides the place: users, passwords and signatures."""

from __future__ import annotations

import re

# What stands before the host, and after the path.
_SECRETS = re.compile(r"(://)[^/\s@]*@|(?<=[^\s?])\?[^\s,?]*=[^\s,]*")


def without_secrets(text: str) -> str:
    """The text with each address in it cut down to its scheme, its host and its path."""
    return _SECRETS.sub(r"\1", text)

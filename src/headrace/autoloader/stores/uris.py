"""Paths as Java's URIs have them, which is how Spark writes those of files."""

from __future__ import annotations

import re
from urllib.parse import quote

# What java.net.URI leaves as it is in a path: RFC 2396's pchar, slashes and semicolons; and letters beyond ASCII.
_ENCODED = re.compile(r"[^A-Za-z0-9/;:@&=+$,\-_.!~*'()\u00a1-\U0010ffff]")


def encoded(path: str) -> str:
    """The path with what a URI cannot have written as bytes in hexadecimal."""
    return _ENCODED.sub(lambda found: quote(found.group(), safe=""), path)

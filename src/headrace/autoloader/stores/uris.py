"""Encode paths as in Java's URIs, which Spark uses for files."""

from __future__ import annotations

import re
from urllib.parse import quote

# java.net.URI does not encode RFC 2396's pchar, slashes, semicolons and letters beyond ASCII.
_ENCODED = re.compile(r"[^A-Za-z0-9/;:@&=+$,\-_.!~*'()\u00a1-\U0010ffff]")


def percent_encode(path: str) -> str:
    """Percent-encode the characters of a path that a URI cannot have."""
    return _ENCODED.sub(lambda found: quote(found.group(), safe=""), path)

"""Paths on the local disk, as Spark and Delta write them down."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit


def local_path(url: str) -> str:
    """The local path behind a ``file:`` URL, or the text itself."""
    return unquote(urlsplit(url).path) if url.startswith("file:") else url

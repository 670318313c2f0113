"""Converts the local paths that Spark and Delta write."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit


def local_path(url: str) -> str:
    """The local path of a ``file:`` URL; other texts unchanged."""
    return unquote(urlsplit(url).path) if url.startswith("file:") else url

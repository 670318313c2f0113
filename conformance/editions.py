"""Digests of everything that results depend on; a change of any of it invalidates them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from conformance.claims import DocumentClaims


def source_digest(root: Path) -> str:
    """The digest of the program, the harness, and the test servers."""
    found = sha256()
    for file in sorted(_sources(root)):
        found.update(f"{file.relative_to(root).as_posix()}\n".encode())
        found.update(sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]


def edition(mapping: DocumentClaims, source: str) -> str:
    """The digest of the source and of the mapping of a document."""
    return sha256(f"{source} {mapping!r}".encode()).hexdigest()[:12]


def _sources(root: Path) -> Iterator[Path]:
    yield from (root / "conformance").glob("*.py")
    for folder in ("src/headrace", "tests/servers"):
        yield from (file for file in (root / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts)

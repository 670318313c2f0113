"""The documents of a folder, each with its mapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from conformance.claims import DocumentClaims, Replacement, read_claims, read_replacements
from conformance.extract import Block, blocks_of, code_outside

MAPPINGS = Path(__file__).with_name("documents")
_DOCUMENTS = (".txt", ".md")


@dataclass(frozen=True)
class Document:
    """A document, its mapping, its blocks, and the lines that look like code but are in no block."""

    mapping: DocumentClaims
    blocks: tuple[Block, ...]
    outside: tuple[int, ...]


def documents_in(folder: Path, mappings: Path) -> list[Document]:
    """The documents with a file in *mappings*, by number.

    Raises:
        FileNotFoundError: a mapping has no document.
    """
    return [_document(folder, read_claims(file)) for file in sorted(mappings.glob("[0-9]*.toml"))]


def unmapped_in(folder: Path, mappings: Path) -> list[str]:
    """The names of documents without a file in *mappings*."""
    known = {file.stem for file in mappings.glob("[0-9]*.toml")}
    files = (file for file in folder.iterdir() if file.suffix in _DOCUMENTS)
    return sorted(file.name for file in files if not any(file.name.startswith(number) for number in known))


def replacements_in(mappings: Path) -> dict[int, Replacement]:
    """All replacements, by number."""
    return read_replacements(mappings / "replacements.toml")


def _document(folder: Path, mapping: DocumentClaims) -> Document:
    file = next(iter(sorted(folder.glob(f"{mapping.document}*"))), None)
    if file is None:
        raise FileNotFoundError(f"there is no document {mapping.document} in {folder}")
    text = file.read_text(encoding="utf-8")
    blocks = tuple(blocks_of(mapping.document, text, mapping.pieces))
    return Document(mapping, blocks, tuple(code_outside(text, blocks)) if mapping.pieces else ())

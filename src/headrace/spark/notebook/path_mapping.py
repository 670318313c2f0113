"""What the paths of a script stand for on this machine; the one place that decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.autoloader.stores.paths import mapped
from headrace.spark.notebook.notices import Notices
from headrace.sql.lexer import Kind, lex, unquoted

# Options of readers and writers whose values are paths, in lower case.
PATH_OPTIONS = frozenset(
    (
        "path",
        "checkpointlocation",
        "schemalocation",
        "schematrackinglocation",
        "badrecordspath",
        "cloudfiles.schemalocation",
        "cloudfiles.cleansource.movedestination",
    )
)
_DBFS = "dbfs"
MOUNTS = "/mnt/"


def default_paths(storage: str) -> dict[str, str]:
    """Beginnings of paths to what they stand for: the vendor's file system and its mounts lie in the storage.

    What lies in the storage stays as it is, so that a path may be looked at twice.
    """
    root = f"{storage.rstrip('/')}/{_DBFS}"
    return {"dbfs:/": root, MOUNTS: f"{root}/mnt", storage: storage}


@dataclass(frozen=True)
class Places:
    """Paths of a script.

    Args:
        paths: beginnings of paths to what they stand for.
        remarks: to the person.
    """

    paths: Mapping[str, str]
    remarks: Notices

    def placed(self, path: str) -> str:
        """What a path stands for; one without a known beginning stands for itself."""
        found = mapped(path, self.paths)
        if found != path and path.startswith(MOUNTS):
            mount = Path(*Path(path).parts[:3])
            if mount.is_dir():
                place = mapped(str(mount), self.paths)
                self.remarks.once(
                    f"{mount} of this machine is not used, {place} is; --path {mount}={mount} changes that"
                )
        return found

    def placed_option(self, key: str, value: object) -> object:
        """An option's value, its path placed if it is one."""
        return self.placed(value) if isinstance(value, str) and key.casefold() in PATH_OPTIONS else value

    def placed_text(self, text: str) -> str:
        """A statement with its paths placed: behind LOCATION, and where a table is named by its path."""
        pieces, position = [], 0
        tokens = lex(text).tokens
        for index, token in enumerate(tokens):
            before = tokens[index - 1] if index else None
            if before is None:
                continue
            if token.kind is Kind.STRING and before.is_word("LOCATION"):
                path, quote = unquoted(token), "'"
            elif token.kind is Kind.QUOTED and "/" in token.text and before.is_symbol("."):
                path, quote = token.text[1:-1], "`"
            else:
                continue
            placed = self.placed(path)
            if placed != path:
                pieces += [text[position : token.start], f"{quote}{placed}{quote}"]
                position = token.end
        return "".join((*pieces, text[position:]))

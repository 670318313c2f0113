"""Maps the paths of a script to paths on this machine; no other module does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.autoloader.stores.paths import replace_prefix
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
    """The default mapping of path prefixes: the vendor's file system and its mounts are in the storage.

    The storage itself maps to itself, so that a path may be mapped twice.
    """
    root = f"{storage.rstrip('/')}/{_DBFS}"
    return {"dbfs:/": root, MOUNTS: f"{root}/mnt", storage: storage}


@dataclass(frozen=True)
class PathMapping:
    """The path mapping of a script.

    Args:
        paths: path prefixes and what they map to.
        notices: notices to the user.
    """

    paths: Mapping[str, str]
    notices: Notices

    def map_path(self, path: str) -> str:
        """The mapped path; a path without a known prefix stays as it is."""
        found = replace_prefix(path, self.paths)
        if found != path and path.startswith(MOUNTS):
            mount = Path(*Path(path).parts[:3])
            if mount.is_dir():
                target = replace_prefix(str(mount), self.paths)
                self.notices.once(
                    f"{mount} of this machine is not used, {target} is; --path {mount}={mount} changes that"
                )
        return found

    def map_option(self, key: str, value: object) -> object:
        """An option's value, mapped if it is a path."""
        return self.map_path(value) if isinstance(value, str) and key.casefold() in PATH_OPTIONS else value

    def map_statement(self, text: str) -> str:
        """A statement with mapped paths: after LOCATION, and where a path stands for a table."""
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
            target = self.map_path(path)
            if target != path:
                pieces += [text[position : token.start], f"{quote}{target}{quote}"]
                position = token.end
        return "".join((*pieces, text[position:]))

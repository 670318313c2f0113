"""The names of a project's datasets and flows, from the folders of its storage: no code of the project runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from headrace.settings.check import Checker
from headrace.settings.discover import find_settings
from headrace.settings.document import read_document
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings

_ENCODED = re.compile(r"(?:~[0-9a-f]{2})+")
# A catalog, a schema, a dataset, and a flow.
_DEEPEST = 4


def stored_names(kind: str, given: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """The names of a kind: ``dataset``, ``flow`` or ``profile``. Empty if the project cannot be read.

    Args:
        kind: of the names.
        given: the global options of the command line.
        environ: the environment variables.
    """
    with suppress(Exception):
        file = find_settings(Path(given.get("--project") or Path.cwd()))
        if kind == "profile":
            return list(Checker(file.name).document(read_document(file)).named_sections("profiles"))
        settings = load_settings(file, profile=given.get("--profile"), environ=environ)
        return list(dict.fromkeys(_FINDERS[kind](settings)))
    return []


def _datasets(settings: Settings) -> Iterator[str]:
    root = Path(settings.layout.root)
    tables, views = root / "tables", root / "system" / "views"
    for table in _below(tables, lambda folder: (folder / "_delta_log").is_dir()):
        if not table.name.endswith("_quarantine"):
            yield _name(table.relative_to(tables).parts, settings)
    for file in sorted(views.rglob("*.json")):
        yield _name(file.relative_to(views).with_suffix("").parts, settings)


def _name(parts: tuple[str, ...], settings: Settings) -> str:
    """A name as users write it: without the default schema."""
    *catalog, schema, name = parts
    is_default = schema == settings.schema and catalog in ([], [settings.catalog])
    return name if is_default else ".".join(parts)


def _flows(settings: Settings) -> Iterator[str]:
    root = Path(settings.layout.root) / "checkpoints"
    for path in _below(root, lambda folder: (folder / "flow.json").is_file()):
        # A shortened name cannot be read back.
        if "~~" not in path.name:
            yield _ENCODED.sub(_decoded, path.name)


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("~", "")).decode("utf-8", "replace")


def _below(folder: Path, is_found: Callable[[Path], bool], depth: int = 0) -> Iterator[Path]:
    """The folders that are looked for, in the order of their names."""
    if depth and is_found(folder):
        yield folder
    elif depth < _DEEPEST:
        for inner in sorted(folder.iterdir()) if folder.is_dir() else ():
            yield from _below(inner, is_found, depth + 1)


_FINDERS: Mapping[str, Callable[[Settings], Iterator[str]]] = {"dataset": _datasets, "flow": _flows}

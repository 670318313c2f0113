"""Definitions of persisted views in the storage, one JSON file each; writes are atomic.

A definition stays when the view is removed from the code, as a table does: see :func:`stored_views`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.model.names import InvalidName, Naming, QualifiedName, quoted
from headrace.model.views import ViewDefinition
from headrace.plan.steps import ViewStep
from headrace.settings.storage import StorageLayout
from headrace.stores.paths import StoragePath, relative_path, sorted_paths, storage_path

_FORMAT = 1


def stored_views(layout: StorageLayout, naming: Naming) -> Iterator[ViewDefinition]:
    """Every definition in the storage, sorted by path, whether or not the code still has the view.

    Raises:
        PipelineError: STORAGE.VIEW_UNREADABLE.
    """
    for name, file in view_files(layout, naming):
        found = _read(file, name)
        if found is not None:
            yield found


def view_files(layout: StorageLayout, naming: Naming) -> Iterator[tuple[QualifiedName, StoragePath]]:
    """The name and path of every stored definition, sorted by path; the files are not read."""
    root = storage_path(layout.views)
    for file in sorted_paths(root.glob("*/*.json")) + sorted_paths(root.glob("*/*/*.json")):
        # A draft left by a crash starts with a dot, which no name does.
        with suppress(InvalidName):
            yield naming.canonical(quoted(*relative_path(file.parent, root).parts, file.stem)), file


def stored_view(layout: StorageLayout, naming: Naming, name: QualifiedName) -> ViewDefinition | None:
    """The stored definition of a view, or None.

    Raises:
        PipelineError: STORAGE.VIEW_UNREADABLE.
    """
    return _read(storage_path(layout.view(naming, name)), name)


def apply_view_step(step: ViewStep, layout: StorageLayout, naming: Naming) -> None:
    """Store or remove a definition; the change is atomic."""
    file = storage_path(layout.view(naming, step.dataset))
    if step.definition is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(_to_json(step.definition), indent=1, sort_keys=True))


def _to_json(view: ViewDefinition) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "query": view.query,
        "catalog": view.catalog,
        "schema": view.schema,
        "comment": view.comment,
        "properties": dict(view.properties),
        "column_comments": dict(view.column_comments),
        "confs": dict(view.confs),
    }


def _read(file: StoragePath, name: QualifiedName) -> ViewDefinition | None:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        return ViewDefinition(
            name=name,
            query=str(raw["query"]),
            catalog=raw["catalog"],
            schema=str(raw["schema"]),
            comment=raw["comment"],
            properties={str(key): str(value) for key, value in raw["properties"].items()},
            column_comments={str(key): str(value) for key, value in raw["column_comments"].items()},
            # Definitions from before confs were stored have none.
            confs={str(key): str(value) for key, value in raw.get("confs", {}).items()},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise PipelineError("STORAGE.VIEW_UNREADABLE", path=file, reason=reason) from error

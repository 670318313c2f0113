"""Reads the pages that are written by hand: YAML between two lines of dashes, then Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources.abc import Traversable

import yaml

from headrace.assistant.knowledge.page import Page

_FENCE = "---\n"
# The parser in C is ten times faster; not every build of PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_pages(folder: Traversable) -> Iterator[Page]:
    """Every page of a folder with one folder for each category, in the order of their paths."""
    for category in _sorted(folder):
        if category.is_dir():
            for file in _sorted(category):
                if file.name.endswith(".md"):
                    yield page_of(file.read_text(encoding="utf-8"), category.name, file.name.removesuffix(".md"))


def page_of(text: str, category: str, name: str) -> Page:
    """The page of a file.

    Raises:
        ValueError: there is no front matter, or it has an unknown field.
    """
    empty, _, rest = text.partition(_FENCE)
    front, fence, body = rest.partition(f"\n{_FENCE}")
    if empty or not fence:
        raise ValueError(f"{category}/{name} has no front matter")
    fields = yaml.load(front, _LOADER)  # noqa: S506 - both loaders make plain values only
    title = fields.pop("title")
    unknown = set(fields) - set(Page.__dataclass_fields__)
    if unknown:
        raise ValueError(f"{category}/{name} has the unknown fields {sorted(unknown)}")
    lists = {field: tuple(str(value) for value in values) for field, values in fields.items()}
    return Page(category, name, title, body.strip("\n") + "\n", **lists)


def _sorted(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda entry: entry.name)

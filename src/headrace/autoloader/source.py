"""A planned ``cloudFiles`` reader, as it is sent to Spark's workers: its files, columns and state locations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.autoloader.globs import name_pattern
from headrace.autoloader.ledger.places import LEDGERS
from headrace.autoloader.options import LoaderOptions, loader_options
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.tree import Selection, Tree
from headrace.stores.paths import StoragePath


@dataclass(frozen=True)
class Source:
    """A reader's files and columns, sent to Spark's workers as JSON."""

    given: Mapping[str, str]
    path: str
    plan: ReadPlan
    ledgers: str
    schema_location: str | None
    tasks: int
    # The schema's version, if the schema evolves.
    version: int | None = None

    @property
    def options(self) -> LoaderOptions:
        """The reader's parsed options."""
        return loader_options(self.given, time_zone=self.plan.time_zone)

    @property
    def tree(self) -> Tree:
        """The selected files."""
        return tree_of(self.path, self.options)

    def to_json(self) -> str:
        """The source as JSON."""
        return json.dumps({**vars(self), "given": dict(self.given), "plan": self.plan.to_json()})

    @staticmethod
    def from_json(text: str) -> Source:
        """The inverse of :meth:`to_json`."""
        document = json.loads(text)
        return Source(**{**document, "plan": ReadPlan.from_json(document["plan"])})


def tree_of(path: str, options: LoaderOptions) -> Tree:
    """The files below a path that the options select."""
    selection = Selection(
        name=name_pattern(options.name_glob) if options.name_glob else None,
        ignored=re.compile(options.ignored),
        after_ns=options.after_ns,
        before_ns=options.before_ns,
        max_age_s=options.max_age_s,
        allow_overwrites=options.allow_overwrites,
        empty_files=options.file_format == "binaryFile",
    )
    return Tree.of(path, selection)


def ledgers_in(schema_location: StoragePath) -> StoragePath:
    """The folder of the ledgers of a reader that stores its schema in a folder."""
    return schema_location / LEDGERS

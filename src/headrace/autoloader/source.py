"""A ``cloudFiles`` reader as it travels to Spark's workers: which files, read as which columns, with which state."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.autoloader.globs import name_pattern
from headrace.autoloader.options import LoaderOptions, loader_options
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.tree import Selection, Tree

LEDGERS = "_ledgers"
# Where a person has named the place of the schema, this file of the flow says where its ledgers are.
LEDGERS_ELSEWHERE = "ledgers_are_in"


@dataclass(frozen=True)
class Source:
    """A reader's files and columns; as JSON it travels to Spark's workers."""

    given: Mapping[str, str]
    path: str
    plan: ReadPlan
    ledgers: str
    schema_location: str | None
    tasks: int
    # Of the schema, where it is one that grows.
    version: int | None = None

    @property
    def options(self) -> LoaderOptions:
        """The reader's options as values."""
        return loader_options(self.given, time_zone=self.plan.time_zone)

    @property
    def tree(self) -> Tree:
        """The files that are meant."""
        return tree_of(self.path, self.options)

    def to_json(self) -> str:
        """The source as text."""
        return json.dumps({**vars(self), "given": dict(self.given), "plan": self.plan.to_json()})

    @staticmethod
    def from_json(text: str) -> Source:
        """The source behind :meth:`to_json`."""
        document = json.loads(text)
        return Source(**{**document, "plan": ReadPlan.from_json(document["plan"])})


def tree_of(path: str, options: LoaderOptions) -> Tree:
    """The files below a path that the options mean."""
    selection = Selection(
        name=name_pattern(options.name_glob) if options.name_glob else None,
        ignored=re.compile(options.ignored),
        after_ns=options.after_ns,
        before_ns=options.before_ns,
        max_age_s=options.max_age_s,
        overwrites=options.overwrites,
        empty_files=options.file_format == "binaryFile",
    )
    return Tree.of(path, selection)

"""The claims about each block of a document, read from its mapping file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from conformance.extract import Lines


class Kind(str, Enum):
    """How a block runs."""

    AS_WRITTEN = "as written"
    NOTEBOOK = "notebook session"
    REPLACED = "replacement"
    COMPLETED = "fragment"
    NOT_CODE = "not code"

    @property
    def label(self) -> str:
        """The label in the table."""
        return _LABELS[self]


_LABELS = {
    Kind.AS_WRITTEN: "runs as written",
    Kind.NOTEBOOK: "runs in a notebook session",
    Kind.REPLACED: "runs after replacement",
    Kind.COMPLETED: "fragment completed by the harness",
    Kind.NOT_CODE: "not code",
}
PLAIN, NOTEBOOK = "plain", "notebook"


@dataclass(frozen=True)
class Check:
    """One effect of a block; exactly one of the first three fields is set.

    Attributes:
        rows_of: a SQL query, whose rows must be ``answer``.
        value: a Python expression, which must equal ``answer``.
        printed: a pattern that the output of the block must match.
        answer: the expected rows, or the expected value.
    """

    rows_of: str = ""
    value: str = ""
    printed: str = ""
    answer: Any = None


@dataclass(frozen=True)
class Edit:
    """A replacement of a text in a block.

    Attributes:
        before: the text, which the block has at least once.
        after: the replacement.
        without: a pattern of the error of the block with all edits but this one.
    """

    before: str
    after: str
    without: str = ""


@dataclass(frozen=True)
class Claim:
    """The claim of a mapping about one block.

    Attributes:
        name: the name of the block.
        line: the line of the block.
        digest: the digest of its text.
        kind: how it runs.
        session: ``plain`` or ``ready``.
        what: a short description.
        checked: a description of the checks.
        given: code of the harness that runs before the block, in the same namespace.
        then: code of the harness that runs after the block, and calls its definitions.
        feed: code of the harness that runs once the block's queries are idle for the first time.
        until: an expression that becomes true when queries that never become idle may stop.
        fails: a pattern of the expected failures of the block's queries.
        streams: streams of the block that the harness starts to check their rows, by target view.
        mode: the output mode of these streams.
        places: replacements of servers, paths and credentials that override those of the document.
        edits: replacements of texts.
        code: a replacement of the whole block.
        completion: a text that includes a fragment; ``@@3-5@@`` stands for its lines 3 to 5.
        replacement: the number of the replacement.
        refused: a pattern of the error of the unchanged block.
        goes_on: the name of the preceding block, whose names, tables and files this block uses.
        pipeline: the name of the pipeline that the block is a file of.
        limit_s: the time limit.
        checks: its expected effects.
    """

    name: str
    line: int
    digest: str
    kind: Kind
    session: str
    what: str
    checked: str = ""
    given: str = ""
    then: str = ""
    feed: str = ""
    until: str = ""
    fails: str = ""
    streams: Mapping[str, str] = field(default_factory=dict)
    mode: str = "append"
    places: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    code: str = ""
    completion: str = ""
    replacement: int = 0
    refused: str = ""
    goes_on: str = ""
    pipeline: str = ""
    limit_s: float = 120.0
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class PipelineClaim:
    """A pipeline whose files are blocks.

    Attributes:
        name: its name in claims.
        given: code of the harness that runs before the first update.
        feed: code of the harness between two updates; without it, there is only one update.
        files: additional files of the harness, by path.
        settings: the settings of the pipeline.
    """

    name: str
    given: str = ""
    feed: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DocumentClaims:
    """One mapping file.

    Attributes:
        document: its number.
        about: a description of the document.
        prelude: imports that its blocks assume.
        places: texts for servers, paths and credentials, each with its replacement on this machine.
        pieces: its blocks without a fence.
        claims: one claim per block.
        pipelines: the pipelines whose files are blocks.
    """

    document: str
    about: str
    prelude: str = ""
    places: tuple[tuple[str, str], ...] = ()
    pieces: tuple[Lines, ...] = ()
    claims: tuple[Claim, ...] = ()
    pipelines: tuple[PipelineClaim, ...] = ()

    def pipeline(self, name: str) -> PipelineClaim:
        """The pipeline of that name."""
        return next(one for one in self.pipelines if one.name == name)


@dataclass(frozen=True)
class Replacement:
    """A construct that cannot run on open-source Spark, and its replacement.

    Attributes:
        number: its number in claims.
        why: the reason why it cannot run.
        told: how a user finds out: an error of Spark or Python, or a lint rule.
        instead: the replacement that runs.
    """

    number: int
    why: str
    told: str
    instead: str


def read_claims(file: Path) -> DocumentClaims:
    """The mapping of one document.

    Raises:
        ValueError: an entry has an unknown key, or lacks one.
    """
    return claims_of(tomllib.loads(file.read_text(encoding="utf-8")))


def claims_of(content: Mapping[str, Any]) -> DocumentClaims:
    """The mapping from the parsed content of its file."""
    given = dict(content)
    blocks, pipelines = given.pop("block", []), given.pop("pipeline", [])
    places = tuple((place["text"], place["is"]) for place in given.pop("place", []))
    pieces = tuple(_piece(text) for text in given.pop("lines", []))
    try:
        claims = tuple(_claim(dict(block)) for block in blocks)
        made = tuple(PipelineClaim(**pipeline) for pipeline in pipelines)
        return DocumentClaims(**given, places=places, pieces=pieces, claims=claims, pipelines=made)
    except TypeError as error:
        raise ValueError(f"mapping of document {content.get('document')}: {error}") from None


def read_replacements(file: Path) -> dict[int, Replacement]:
    """The replacements by number."""
    found = tomllib.loads(file.read_text(encoding="utf-8"))["replacement"]
    return {entry["number"]: Replacement(**entry) for entry in found}


def _claim(block: dict[str, Any]) -> Claim:
    kind = Kind(block.pop("kind"))
    session = block.pop("session", NOTEBOOK if kind is Kind.NOTEBOOK or block.get("pipeline") else PLAIN)
    checks = tuple(_check(dict(check)) for check in block.pop("check", []))
    edits = tuple(Edit(*edit) for edit in block.pop("edits", []))
    return Claim(kind=kind, session=session, checks=checks, edits=edits, **block)


def _check(entry: dict[str, Any]) -> Check:
    answer = entry.pop("are", entry.pop("is", None))
    check = Check(answer=answer, **entry)
    if sum(map(bool, (check.rows_of, check.value, check.printed))) != 1 or (answer is None) != bool(check.printed):
        raise TypeError(f"a check asks one thing, and says the answer: {entry}")
    return check


def _piece(text: str) -> Lines:
    """Parse lines such as ``12-20 python``."""
    numbers, _, language = text.partition(" ")
    first, _, last = numbers.partition("-")
    return Lines(int(first), int(last), language or "python")

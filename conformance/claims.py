"""What is claimed of each block of a document, read from its mapping file."""

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
    READY = "ready session"
    REPLACED = "replacement"
    COMPLETED = "fragment"
    NOT_CODE = "not code"

    @property
    def label(self) -> str:
        """In the table."""
        return _LABELS[self]


_LABELS = {
    Kind.AS_WRITTEN: "runs as written",
    Kind.READY: "runs with the ready session",
    Kind.REPLACED: "runs after replacement",
    Kind.COMPLETED: "fragment completed by the harness",
    Kind.NOT_CODE: "not code",
}
PLAIN, READY = "plain", "ready"


@dataclass(frozen=True)
class Check:
    """One effect of a block; exactly one of the questions is asked.

    Attributes:
        rows_of: a query in SQL, whose rows must be ``answer``.
        value: an expression in Python, which must equal ``answer``.
        printed: a pattern that what the block prints must contain.
        answer: expected rows, or the value.
    """

    rows_of: str = ""
    value: str = ""
    printed: str = ""
    answer: Any = None


@dataclass(frozen=True)
class Edit:
    """A text of a block, and what takes its place.

    Attributes:
        before: it is found at least once.
        after: in its place.
        without: a pattern of what the block fails with when all edits are made but this one.
    """

    before: str
    after: str
    without: str = ""


@dataclass(frozen=True)
class Claim:
    """What a mapping says of one block.

    Attributes:
        name: of the block.
        line: where it was found.
        digest: of its text.
        kind: how it runs.
        session: ``plain`` or ``ready``.
        what: a short description.
        checked: what the checks look at, in words.
        given: code of ours that runs before, in the same names.
        then: code of ours that runs after it: it calls what the block defines.
        feed: code of ours that runs once the block's queries have started.
        until: an expression that is true once queries that never rest may end.
        fails: a pattern of the failures that queries of the block have to have.
        streams: names of streams of the block that are started to look at their rows, by the views they are put into.
        mode: the output mode of these.
        places: those of the document that are others here.
        edits: texts that others take the place of.
        code: takes the place of the whole block.
        completion: what a fragment is put into; ``@@3-5@@`` is its lines 3 to 5.
        replacement: the number of the replacement.
        refused: a pattern of the error that the block fails with as it is written.
        goes_on: the name of the block before it, whose names, tables and files are still there.
        pipeline: the name of the pipeline that it is a file of.
        limit_s: how long it may take.
        checks: its effects.
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
    """Blocks that are files of one pipeline.

    Attributes:
        name: by which claims call it.
        given: code of ours that runs before the first update.
        feed: code of ours between two updates; without it there is one.
        files: of ours, beside those of the blocks, by path.
        settings: of the pipeline.
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
        about: what the document is.
        prelude: imports that its blocks take for granted.
        places: what stands for a server, a path or a credential, and what it is here.
        pieces: its blocks without a fence.
        claims: one for each block.
        pipelines: those that blocks are files of.
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
    """What cannot run on open-source Spark as it is written, and what does.

    Attributes:
        number: by which claims call it.
        why: it cannot run.
        told: what a user finds out by: what Spark or Python say, or a rule of lint.
        instead: what runs.
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
    """The same from what a file says."""
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
    session = block.pop("session", READY if kind is Kind.READY or block.get("pipeline") else PLAIN)
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
    """``12-20 python``."""
    numbers, _, language = text.partition(" ")
    first, _, last = numbers.partition("-")
    return Lines(int(first), int(last), language or "python")

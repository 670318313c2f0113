"""The results as a page of Markdown, as JSON, and as a summary for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.claims import Claim, Kind, Replacement
from conformance.editions import edition
from conformance.extract import Block
from conformance.loading import Document

_HEAD = """\
# Conformance

Written by `make conformance DOCS=folder ARGS=--publish`. Every code example of five documents about streaming on
Databricks runs on this machine, against a Kafka broker, a server of HTTP and files that are really there. Nothing of an
example is changed but servers, paths and credentials, which stand in `conformance/documents`, and what is named as a
replacement. Each runs by itself, unless the table says from which one it goes on: what it takes for granted, such as
tables, imports and streams of the examples before it, is given to it by `conformance/documents`. The examples that
declare datasets run as files of a few pipelines.

Not everything is as a user has it. Records and files also come while an example runs. A stream that it makes and leaves
to others to start is started, into a table in memory. Its streams end once they have taken everything, so that what
waits for them goes on, and do not wait for the next interval of a trigger. The session has two cores and two partitions
for a shuffle, and Spark generates no code, which takes longer than it saves where there are a few rows.

An example counts when its effect was found: rows in a table, records of a topic, a value. A check that has its answer
before the example has run is a failure, and so is a replacement of what runs as it is written.

- **runs as written**: in a session of PySpark with Delta and Kafka's connector, without any of Headrace.
- **runs with the ready session**: as it is written, in [`headrace.spark_session()`](notebook-session.md), or as a file
  of a pipeline.
- **runs after replacement**: it runs on no open-source Spark as it is written, which is tried every time; a part of it
  was replaced, as the [list below](#replacements) says.
- **fragment completed by the harness**: it is no statement of its own, and runs as a part of one.
- **not code**: nothing is there to run.
"""

# The minimum share of the first two kinds, among the fenced Python blocks that parse.
MIN_FIRST_TWO = 0.82
_NOT_RUN: Mapping[str, Any] = {"edition": "", "faults": ["it was not run"]}


def results(documents: Sequence[Document], verdicts: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, Any]:
    """The content of the page, as JSON.

    Args:
        documents: all documents.
        verdicts: the verdicts by block; those of another edition do not count.
        source: the digest of the program that ran.
    """
    blocks = [_entry(block, document, verdicts, source) for document in documents for block in document.blocks]
    return {
        "source": source,
        "documents": [{"document": one.mapping.document, "about": one.mapping.about} for one in documents],
        "blocks": blocks,
        "kinds": dict(Counter(entry["kind"] for entry in blocks if entry["reached"])),
        "python": _share(blocks),
    }


def page(found: Mapping[str, Any], replacements: Mapping[int, Replacement]) -> str:
    """The results as a page of the docs."""
    lines = [_HEAD, *_summary(found), ""]
    for document in found["documents"]:
        lines += [f"## {document['document']}: {document['about']}", ""]
        lines += ["| block | line | what it does | kind | what was checked |", "|---|---|---|---|---|"]
        lines += [_row(entry) for entry in found["blocks"] if entry["document"] == document["document"]]
        lines.append("")
    lines += ["## Replacements", "", "Rules are those of [`headrace lint`](lint.md).", ""]
    lines += ["| number | why it cannot run | what says so | what runs instead | blocks |", "|---|---|---|---|---|"]
    for number, one in sorted(replacements.items()):
        names = [entry["block"] for entry in found["blocks"] if entry["replacement"] == number]
        lines.append(f"| {number} | {one.why} | {one.told} | {one.instead} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def meets_minimum(found: Mapping[str, Any]) -> bool:
    """Whether enough of the fenced Python blocks that parse are of the first two kinds."""
    python = found["python"]
    return bool(python["first_two"] >= MIN_FIRST_TWO * python["parse"])


def summary(found: Mapping[str, Any]) -> str:
    """A summary for the terminal."""
    failed = [entry["block"] for entry in found["blocks"] if not entry["reached"]]
    python = found["python"]
    lines = [f"{found['kinds'].get(kind.label, 0):>5}  {kind.label}" for kind in Kind]
    lines += [
        f"{len(failed):>5}  in no kind{': ' + ', '.join(failed) if failed else ''}",
        f"of {python['parse']} fenced blocks of Python that parse, {python['first_two']} are of the first two kinds: "
        + _percent(python),
    ]
    return "\n".join(lines)


def _entry(block: Block, document: Document, verdicts: Mapping[str, Mapping[str, Any]], source: str) -> dict[str, Any]:
    claim = next((claim for claim in document.mapping.claims if claim.name == block.name), None)
    entry = {
        "document": block.document,
        "block": block.name,
        "line": block.line,
        "form": block.form,
        "language": block.language,
        "parses": block.parses,
    }
    if claim is None:
        return {**entry, "what": "", "kind": "", "replacement": 0, "checked": "", "reached": False, "faults": []}
    verdict = verdicts.get(block.name, _NOT_RUN)
    if verdict["edition"] != edition(document.mapping, source):
        # The claim or the program has changed since the block ran.
        verdict = _NOT_RUN
    faults = [] if claim.kind is Kind.NOT_CODE else list(verdict["faults"])
    labels = {
        "what": claim.what,
        "kind": claim.kind.label,
        "replacement": claim.replacement,
        "checked": _checked(claim),
    }
    return {**entry, **labels, "reached": not faults, "faults": faults, "seconds": verdict.get("seconds")}


def _checked(claim: Claim) -> str:
    if claim.kind is Kind.NOT_CODE:
        return ""
    return f"goes on from {claim.goes_on}: {claim.checked}" if claim.goes_on else claim.checked


def _share(blocks: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    fenced = [entry for entry in blocks if entry["form"] == "fence" and entry["language"] == "python"]
    parse = [entry for entry in fenced if entry["parses"]]
    first = [
        entry for entry in parse if entry["reached"] and entry["kind"] in (Kind.AS_WRITTEN.label, Kind.READY.label)
    ]
    return {"fenced": len(fenced), "parse": len(parse), "first_two": len(first)}


def _summary(found: Mapping[str, Any]) -> list[str]:
    python = found["python"]
    documents = [document["document"] for document in found["documents"]]
    lines = [
        f"{python['fenced']} fenced blocks of Python, of which {python['parse']} parse;",
        f"{python['first_two']} of these ({_percent(python)}) are of the first two kinds. All blocks:",
        "",
        f"| kind | {' | '.join(documents)} | all |",
        f"|---|{'---|' * (len(documents) + 1)}",
    ]
    for label in (*(kind.label for kind in Kind), "in no kind"):
        counts = [
            sum(_kind(entry) == label for entry in found["blocks"] if entry["document"] == one) for one in documents
        ]
        lines.append(f"| {label} | {' | '.join(map(str, counts))} | {sum(counts)} |")
    return lines


def _kind(entry: Mapping[str, Any]) -> str:
    return str(entry["kind"]) if entry["reached"] else "in no kind"


def _row(entry: Mapping[str, Any]) -> str:
    kind = entry["kind"] + (f" {entry['replacement']}" if entry["replacement"] else "")
    kind = kind if entry["reached"] else f"in no kind (claimed: {kind})" if kind else "in no kind"
    return f"| {entry['block']} | {entry['line']} | {entry['what']} | {kind} | {entry['checked']} |"


def _percent(python: Mapping[str, int]) -> str:
    return f"{100 * python['first_two'] / python['parse']:.1f} %" if python["parse"] else "none"

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

Five documents about streaming on Databricks contain code examples. This page shows what each of them does on
open-source Spark with Headrace. The examples run against a real Kafka broker, a real HTTP server and real files. To run
them and write this page:

    make conformance DOCS=folder ARGS=--publish

An example is run as it is written, except for server names, paths and credentials (in `conformance/documents`), and for
the replacements that this page lists. Each example runs alone, unless the table says which one it continues. The
harness provides what an example assumes: tables, imports, and streams of earlier examples. Examples that declare
datasets run as files of a few pipelines.

The harness differs from a user's session in these points:

- Records and files also arrive while an example runs.
- A stream that an example defines but does not start is started, into a memory table.
- Streams end when they have read everything, and do not wait for their trigger interval.
- The session has two cores and two shuffle partitions. Code generation is off: with few rows, it costs more than it
  saves.

An example counts only if the harness finds its effect: rows in a table, records in a topic, or a value. A check that
passes before the example runs is a failure. So is a replacement for an example that runs as it is written.

- **runs as written**: in a PySpark session with Delta and the Kafka connector, without Headrace.
- **runs in a notebook session**: as written, in [`headrace.spark_session()`](notebook-session.md), or as a pipeline
  file.
- **runs after replacement**: the example does not run on open-source Spark as written, which every run confirms. A part
  of it is replaced; see the [list](#replacements).
- **fragment completed by the harness**: the example is not a complete statement. It runs as part of one.
- **not code**: there is nothing to run.
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
        entry for entry in parse if entry["reached"] and entry["kind"] in (Kind.AS_WRITTEN.label, Kind.NOTEBOOK.label)
    ]
    return {"fenced": len(fenced), "parse": len(parse), "first_two": len(first)}


def _summary(found: Mapping[str, Any]) -> list[str]:
    python = found["python"]
    documents = [document["document"] for document in found["documents"]]
    lines = [
        f"{python['fenced']} fenced Python blocks, of which {python['parse']} parse;",
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

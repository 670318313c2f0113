"""The command line of the conformance run."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.claims import NOTEBOOK, PLAIN, Kind, Replacement
from conformance.editions import source_digest
from conformance.faults import faults
from conformance.loading import MAPPINGS, Document, documents_in, replacements_in, unmapped_in
from conformance.page import meets_minimum, page, results, summary

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".conformance"
_VERDICTS = "verdicts.json"
PAGE = ROOT / "docs" / "reference" / "conformance.md"


# Runs the named blocks of a session, and writes their verdicts to the work folder; returns an exit code.
Worker = Callable[[str, str, argparse.Namespace, Sequence[str]], int]


def run_in_process(session: str, source: str, arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Run the blocks of a session in a new process; returns its exit code."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    # Makes Python show collected timestamps as Spark does.
    environ["TZ"] = "UTC"
    folders = [str(folder.absolute()) for folder in (arguments.work, arguments.docs, arguments.mappings)]
    call = [sys.executable, "-m", "conformance.worker", session, source, *folders, *names]
    return subprocess.run(call, cwd=ROOT, env=environ, check=False).returncode


def main(words: Sequence[str], worker: Worker = run_in_process) -> int:
    """Run the blocks; 1 if a requested block does not reach its kind, or too few are of the first two kinds.

    Args:
        words: the command line.
        worker: runs the blocks of a session.

    Raises:
        ValueError: no block is selected, or only a part of them is to be published.
        FileNotFoundError: a mapping has no document.
    """
    arguments = _parser().parse_args(words)
    if not arguments.docs.is_dir():
        print(f"There is no folder {arguments.docs}: no document was looked at.")
        print("To run the examples of documents, say where they are: make conformance DOCS=folder")
        return 0
    documents = documents_in(arguments.docs.absolute(), arguments.mappings)
    unmapped = unmapped_in(arguments.docs, arguments.mappings)
    for name in unmapped:
        print(f"{name} has no mapping in {arguments.mappings}: none of its blocks is looked at.")
    if arguments.list:
        return _list(documents)
    replacements = replacements_in(arguments.mappings)
    mapping_faults = _faults(documents, replacements)
    if mapping_faults:
        print("\n".join(["The mapping is not that of the documents:", *(f"  {fault}" for fault in mapping_faults)]))
        return 1
    names = arguments.only.split(",") if arguments.only else []
    sessions = (arguments.session,) if arguments.session else (PLAIN, NOTEBOOK)
    part = bool(names or arguments.session)
    if part and arguments.publish:
        raise ValueError("a part of the blocks is not published; leave --only and --session out")
    wanted = wanted_of(documents, names, sessions)
    began = time.monotonic()
    found, ended_well = _found(documents, arguments, _sessions_of(documents, wanted), worker)
    _write(
        found, replacements, arguments.work / "conformance.md", *([PAGE] if arguments.publish and ended_well else [])
    )
    reached = [entry["block"] in wanted and entry["reached"] for entry in found["blocks"]].count(True)
    message = (
        f"{reached} of the {len(wanted)} blocks that were asked for reached their kinds" if part else summary(found)
    )
    minutes = (time.monotonic() - began) / 60
    print(f"\n{message}\n{minutes:.1f} minutes; the table is {arguments.work / 'conformance.md'}")
    return int(not ended_well or reached < len(wanted) or (not part and (bool(unmapped) or not meets_minimum(found))))


def _write(found: Mapping[str, Any], replacements: Mapping[int, Replacement], *files: Path) -> None:
    for file in files:
        file.write_text(page(found, replacements), encoding="utf-8")
        file.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def wanted_of(documents: Sequence[Document], names: Sequence[str], sessions: Sequence[str]) -> set[str]:
    """The names of the blocks that *names* select; without names, all of them.

    Args:
        documents: all documents.
        names: names of blocks, documents and pipelines.
        sessions: the sessions to run.

    Raises:
        ValueError: a name is unknown, or these sessions run none of the blocks.
    """
    claims = [claim for document in documents for claim in document.mapping.claims]
    called = {claim.name: {claim.name, claim.name.partition("-")[0], claim.pipeline} - {""} for claim in claims}
    unknown = [name for name in names if not any(name in those for those in called.values())]
    if unknown:
        raise ValueError(f"no block, document or pipeline is called {', '.join(unknown)}")
    found = {
        claim.name
        for claim in claims
        if claim.session in sessions and (not names or not called[claim.name].isdisjoint(names))
    }
    if not found:
        raise ValueError(f"none of these blocks is run in the {' and '.join(sessions)} session")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance", description="The code examples of documents.")
    parser.add_argument("docs", type=Path, help="the folder that has the documents")
    parser.add_argument("--mappings", type=Path, default=MAPPINGS, help="what is claimed of the documents")
    parser.add_argument("--work", type=Path, default=WORK, help="where the results go")
    parser.add_argument("--only", metavar="A,B", help="these blocks (000-02), documents (000) or pipelines alone")
    parser.add_argument("--session", choices=(PLAIN, NOTEBOOK), help="the blocks of one session alone")
    parser.add_argument("--publish", action="store_true", help=f"write the results into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--list", action="store_true", help="list the blocks, and run nothing")
    return parser


def _sessions_of(documents: Sequence[Document], wanted: Collection[str]) -> list[str]:
    """The sessions that run any wanted block."""
    claims = [claim for document in documents for claim in document.mapping.claims if claim.kind is not Kind.NOT_CODE]
    return [
        name for name in (PLAIN, NOTEBOOK) if any(claim.session == name and claim.name in wanted for claim in claims)
    ]


def _found(
    documents: Sequence[Document], arguments: argparse.Namespace, sessions: Sequence[str], worker: Worker
) -> tuple[dict[str, Any], bool]:
    """Run the sessions; returns the results, and whether all succeeded and the program did not change meanwhile."""
    names = arguments.only.split(",") if arguments.only else []
    source = source_digest(ROOT)
    arguments.work.mkdir(parents=True, exist_ok=True)
    # A partial run updates the verdicts of earlier calls.
    before = _stored(arguments.work) if names or arguments.session else {}
    codes = [_run(session, source, arguments, names, worker) for session in sessions]
    verdicts = {**before, **_new(arguments.work, sessions)}
    (arguments.work / _VERDICTS).write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    changed = source_digest(ROOT) != source
    if changed:
        print("The program has changed while its blocks ran: nobody knows which one has done what.")
    return results(documents, verdicts, source), not changed and not any(codes)


def _faults(documents: Sequence[Document], replacements: Mapping[int, Replacement]) -> list[str]:
    found = [fault for document in documents for fault in faults(document.blocks, document.mapping, replacements)]
    found += [
        f"line {line} of document {document.mapping.document} looks like code and is in no block"
        for document in documents
        for line in document.outside
    ]
    return found


def _list(documents: Sequence[Document]) -> int:
    for document in documents:
        claims = {claim.name: claim for claim in document.mapping.claims}
        for block in document.blocks:
            claim = claims.get(block.name)
            description = f"{claim.kind.label}: {claim.what}" if claim else "in no kind"
            print(
                f"{block.name}  line {block.line:<5} {block.digest}  {block.form:<5} {block.language:<8} {description}"
            )
    return 0


def _run(session: str, source: str, arguments: argparse.Namespace, names: Sequence[str], worker: Worker) -> int:
    (arguments.work / f"{session}.jsonl").unlink(missing_ok=True)
    print(f"\nthe {session} session", flush=True)
    code = worker(session, source, arguments, names)
    if code:
        print(f"The session ended with {code}; see {arguments.work / session}.log")
    return code


def _new(work: Path, sessions: Sequence[str]) -> dict[str, dict[str, Any]]:
    files = [file for file in (work / f"{session}.jsonl" for session in sessions) if file.exists()]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return {found["name"]: found for found in map(json.loads, lines)}


def _stored(work: Path) -> dict[str, dict[str, Any]]:
    file = work / _VERDICTS
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (FileNotFoundError, ValueError) as error:
        sys.exit(f"error: {error}")

"""One process, which runs all blocks of one session, document after document."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO

from conformance.claims import Claim, DocumentClaims, Kind
from conformance.editions import edition
from conformance.extract import Block
from conformance.loading import Document, documents_in
from conformance.running import Scene, Verdict, run_block
from conformance.sessions import open_runner
from conformance.surroundings import Servers

# How much of each fault the terminal shows; the results file has all of it.
_SHOWN_LINES, _SHOWN_WIDTH = 4, 400


def main(words: Sequence[str]) -> int:
    """``SESSION SOURCE WORK DOCS MAPPINGS [BLOCK ...]``: prints a line per block, and writes ``WORK/SESSION.jsonl``."""
    session, source, work, docs, mappings, *names = words
    folder = Path(work) / session
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    documents = documents_in(Path(docs), Path(mappings))
    # So that the servers stop with this process, whoever stops it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    terminal = _redirect_output(Path(work) / f"{session}.log")
    with closing(Servers(folder)) as servers, (Path(work) / f"{session}.jsonl").open("w", encoding="utf-8") as results:
        runner = open_runner(session, folder)
        try:
            for document in documents:
                scene = Scene(runner, servers, folder / "blocks", edition(document.mapping, source))
                for verdict in _verdicts(document, session, scene, names):
                    results.write(json.dumps(verdict.to_json()) + "\n")
                    results.flush()
                    _say(verdict, document.mapping, terminal)
        finally:
            runner.session.stop()
    return 0


def _verdicts(document: Document, session: str, scene: Scene, names: Sequence[str]) -> Iterator[Verdict]:
    claims = {claim.name: claim for claim in document.mapping.claims}
    wanted = [
        (block, claims[block.name])
        for block in document.blocks
        if block.name in claims
        and claims[block.name].session == session
        and claims[block.name].kind is not Kind.NOT_CODE
    ]
    done: set[str] = set()
    for block, claim in wanted:
        if names and not _is_requested(block, claim, wanted, names):
            continue
        if not claim.pipeline:
            yield run_block(block, claim, document.mapping, scene)
        elif claim.pipeline not in done:
            done.add(claim.pipeline)
            yield from _pipeline(document.mapping, claim.pipeline, wanted, scene)


def _pipeline(
    mapping: DocumentClaims, name: str, wanted: Sequence[tuple[Block, Claim]], scene: Scene
) -> Iterator[Verdict]:
    # Only the process with the notebook session loads the engine.
    from conformance.pipelines import run_pipeline_blocks  # noqa: PLC0415 - see above

    members = [(block, claim) for block, claim in wanted if claim.pipeline == name]
    yield from run_pipeline_blocks(mapping.pipeline(name), members, mapping, scene)


def _is_requested(block: Block, claim: Claim, wanted: Sequence[tuple[Block, Claim]], names: Sequence[str]) -> bool:
    """Whether the block was named, a named block continues from it, or it shares a pipeline with one."""
    if block.name in names or block.document in names or (claim.pipeline and claim.pipeline in names):
        return True
    return any(_is_requested(*other, wanted, names) for other in wanted if other[1].goes_on == block.name)


def _redirect_output(log: Path) -> TextIO:
    """Redirect the output of this process and its JVM to a file, and return a stream to the terminal."""
    terminal = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    with log.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    return terminal


def _say(verdict: Verdict, mapping: DocumentClaims, terminal: TextIO) -> None:
    what = next(claim.what for claim in mapping.claims if claim.name == verdict.name)
    state = "FAILED" if verdict.faults else "ok"
    print(f"  {verdict.name}  {state:<6}  {verdict.seconds:5.1f} s  {what}", file=terminal)
    for line in [line for fault in verdict.faults for line in fault.splitlines()[:_SHOWN_LINES]]:
        print(f"          {line[:_SHOWN_WIDTH]}", file=terminal)
    terminal.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

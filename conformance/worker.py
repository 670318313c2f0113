"""One process: all blocks of one session, document after document."""

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
from conformance.running import Scene, Verdict, judged
from conformance.sessions import opened
from conformance.surroundings import Servers

# Of each fault; the results have all of it.
_SHOWN_LINES, _SHOWN_WIDTH = 4, 400


def main(words: Sequence[str]) -> int:
    """``SESSION SOURCE WORK DOCS MAPPINGS [BLOCK ...]``: a line for each block, and ``WORK/SESSION.jsonl``."""
    session, source, work, docs, mappings, *names = words
    folder = Path(work) / session
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    documents = documents_in(Path(docs), Path(mappings))
    # So that servers end with this process, whoever ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    terminal = _aside(Path(work) / f"{session}.log")
    with closing(Servers(folder)) as servers, (Path(work) / f"{session}.jsonl").open("w", encoding="utf-8") as results:
        runs = opened(session, folder)
        try:
            for document in documents:
                scene = Scene(runs, servers, folder / "blocks", edition(document.said, source))
                for verdict in _verdicts(document, session, scene, names):
                    results.write(json.dumps(verdict.to_json()) + "\n")
                    results.flush()
                    _say(verdict, document.said, terminal)
        finally:
            runs.session.stop()
    return 0


def _verdicts(document: Document, session: str, scene: Scene, names: Sequence[str]) -> Iterator[Verdict]:
    claims = {claim.name: claim for claim in document.said.claims}
    wanted = [
        (block, claims[block.name])
        for block in document.blocks
        if block.name in claims
        and claims[block.name].session == session
        and claims[block.name].kind is not Kind.NOT_CODE
    ]
    done: set[str] = set()
    for block, claim in wanted:
        if names and not _asked(block, claim, wanted, names):
            continue
        if not claim.pipeline:
            yield judged(block, claim, document.said, scene)
        elif claim.pipeline not in done:
            done.add(claim.pipeline)
            yield from _pipeline(document.said, claim.pipeline, wanted, scene)


def _pipeline(
    said: DocumentClaims, name: str, wanted: Sequence[tuple[Block, Claim]], scene: Scene
) -> Iterator[Verdict]:
    # The engine is loaded in the process that has the ready session, and in no other.
    from conformance.pipelines import judged_together  # noqa: PLC0415 - see above

    members = [(block, claim) for block, claim in wanted if claim.pipeline == name]
    yield from judged_together(said.pipeline(name), members, said, scene)


def _asked(block: Block, claim: Claim, wanted: Sequence[tuple[Block, Claim]], names: Sequence[str]) -> bool:
    """A block that was named, one that it goes on from, or one of the same pipeline."""
    if block.name in names or block.document in names or (claim.pipeline and claim.pipeline in names):
        return True
    return any(_asked(*following, wanted, names) for following in wanted if following[1].goes_on == block.name)


def _aside(log: Path) -> TextIO:
    """Let whatever this process and its JVM print go into a file; returns what leads to the terminal."""
    terminal = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    with log.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    return terminal


def _say(verdict: Verdict, said: DocumentClaims, terminal: TextIO) -> None:
    what = next(claim.what for claim in said.claims if claim.name == verdict.name)
    state = "FAILED" if verdict.faults else "ok"
    print(f"  {verdict.name}  {state:<6}  {verdict.seconds:5.1f} s  {what}", file=terminal)
    for line in [line for fault in verdict.faults for line in fault.splitlines()[:_SHOWN_LINES]]:
        print(f"          {line[:_SHOWN_WIDTH]}", file=terminal)
    terminal.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

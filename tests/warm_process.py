"""A process that runs commands one after the other in one session, for tests whose session needs other jars."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.command_line import Done, in_process

from headrace.testing.warm import warm_session


class WarmProcess:
    """Runs commands on projects in a process and a JVM that they share."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, project: Path, *words: str) -> Done:
        """A command on a project, in this process' session."""
        sent, answers = self._process.stdin, self._process.stdout
        assert sent
        assert answers
        sent.write(json.dumps([str(project), *words]) + "\n")
        sent.flush()
        return Done(*json.loads(answers.readline()))


@contextmanager
def warm_process(connector: str, folder: Path) -> Iterator[WarmProcess]:
    """A process whose session has a connector; it has the environment of now, and ends with the block.

    Args:
        connector: such as ``s3``.
        folder: for Spark's log, warehouse and scratch files.
    """
    call = [sys.executable, "-m", __name__, connector, str(folder)]
    root = Path(__file__).parents[1]
    process = subprocess.Popen(call, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    with process:
        yield WarmProcess(process)
        assert process.stdin
        process.stdin.close()


def main(connector: str, folder: str) -> None:
    """Answer each line of commands with a line of what came of it."""
    # What Spark's JVM prints is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with warm_session([connector], Path(folder)):
        for line in sys.stdin:
            project, *words = json.loads(line)
            done = in_process(Path(project), *words)
            answers.write(json.dumps([done.returncode, done.stdout, done.stderr]) + "\n")
            answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs the proof of a question in Spark and compares what it observes with what the question claims."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.assistant.practice.question import Claim, Question
from headrace.errors import PipelineError
from headrace.project.scratch import scratch
from headrace.spark.notebook.notebook_session import activated
from headrace.spark.startup.open_session import open_session

# A question is about a few rows: Spark's 200 partitions would only take time.
_SMALL = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true"}
# Files of one program have modification times a second apart, all of them in the past.
_LANDED_AGO_S = 3600


@dataclass(frozen=True)
class Observed:
    """A claim and the value that the proof observed."""

    claim: Claim
    value: Any

    @property
    def holds(self) -> bool:
        """Whether the value is the expected one, with the same type."""
        return json.dumps(self.value) == json.dumps(self.claim.expected)

    def to_json(self) -> dict[str, Any]:
        """The claim with its values, as JSON."""
        return {
            "claim": self.claim.says,
            "expected": self.claim.expected,
            "observed": self.value,
            "holds": self.holds,
        }


def prove_in_scratch(question: Question, environ: Mapping[str, str]) -> tuple[Observed, ...]:
    """Run the proof of a question in a session of this process and in temporary folders; see :func:`prove`.

    Raises:
        PipelineError: CONNECTOR.* if Java or the jars are missing; PRACTICE.PROOF_FAILED.
    """
    folder = scratch("proof")
    session = open_session(
        name="headrace practice", connectors=(), confs=_SMALL, log_folder=scratch("spark"), environ=environ
    )
    return prove(question, session, folder)


def prove(question: Question, session: SparkSession, folder: Path) -> tuple[Observed, ...]:
    """Run the proof of a question and return what it observed, claim by claim.

    All streaming queries that the program starts have stopped when this returns.

    Args:
        question: the question.
        session: an open session; the program may change its settings.
        folder: a folder for the files of the program.

    Raises:
        PipelineError: PRACTICE.PROOF_FAILED if the program raises, or does not set a variable.
    """
    names: dict[str, Any] = {
        "__name__": f"question_{question.number}",
        "spark": session,
        "folder": folder,
        "land": _landing(folder, time.time() - _LANDED_AGO_S),
    }
    running = {query.id for query in session.streams.active}
    try:
        with activated(None):
            exec(compile(question.proof.program, f"question {question.number}", "exec"), names)  # noqa: S102 - a program of this package
        return tuple(Observed(claim, names[claim.name]) for claim in question.proof.claims)
    except Exception as error:
        raise PipelineError("PRACTICE.PROOF_FAILED", number=question.number, reason=_first_line(error)) from error
    finally:
        for query in session.streams.active:
            if query.id not in running:
                query.stop()


def _landing(folder: Path, begin_s: float) -> Callable[..., None]:
    landed: list[Path] = []

    def land(name: str, *rows: Mapping[str, Any]) -> None:
        target = folder / name / f"{len(landed):03}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}")
        draft.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        # Spark takes files in the order of these times.
        os.utime(draft, (begin_s + len(landed), begin_s + len(landed)))
        draft.replace(target)
        landed.append(target)

    return land


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

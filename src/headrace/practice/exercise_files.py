"""Writes the project of an exercise and its data into a folder."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from headrace.assistant.practice.exercise import Exercise
from headrace.assistant.practice.exercise_data import DataFile, data_of
from headrace.errors import PipelineError

_DATA = "data"
# Files have modification times a second apart, all of them in the past.
_LANDED_AGO_S = 3600


def write_exercise(exercise: Exercise, folder: Path, *, solved: bool) -> tuple[str, ...]:
    """Write the starter of an exercise, or its solution, with its data; returns the paths of the files.

    Raises:
        PipelineError: PRACTICE.FOLDER_EXISTS; PRACTICE.NOT_WRITTEN, then nothing remains.
    """
    try:
        is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise PipelineError("PRACTICE.NOT_WRITTEN", folder=folder, reason=error.strerror or error) from error
    if is_taken:
        raise PipelineError("PRACTICE.FOLDER_EXISTS", folder=folder)
    try:
        for path, text in exercise.files(solved=solved).items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        write_data(folder, (data for data in data_of(exercise.number) if not data.stage))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise PipelineError("PRACTICE.NOT_WRITTEN", folder=folder, reason=error.strerror or error) from error
    return tuple(sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()))


def replace_data(number: int, folder: Path) -> None:
    """Put the data of an exercise into a project, as it is at the start."""
    shutil.rmtree(folder / _DATA, ignore_errors=True)
    write_data(folder, (data for data in data_of(number) if not data.stage))


def write_data(folder: Path, files: Iterable[DataFile]) -> None:
    """Write files of rows, and append to Delta tables."""
    for number, data in enumerate(files):
        target = folder / data.path
        if data.is_table:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_deltalake(target, pa.Table.from_pylist(list(data.rows)), mode="append")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(f"{json.dumps(row)}\n" for row in data.rows), encoding="utf-8")
        # Spark takes files in the order of these times; later stages are newer.
        landed_at = time.time() - _LANDED_AGO_S * (not data.stage) + number
        os.utime(target, (landed_at, landed_at))

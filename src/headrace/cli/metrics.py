"""The verb that prints metrics. It starts no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.atomic_write import replace_file
from headrace.cli.invocation import invocation_of
from headrace.errors import PipelineError
from headrace.metrics.exposition import json_of, prometheus_text


def metrics(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="PATH", help="Write to a file, atomically, for a collector of text files."),
    ] = None,
    tables: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--tables/--no-tables", help="Include rows, bytes and files of each table.")
    ] = True,
) -> None:
    """Print metrics of the pipeline in Prometheus' text format.

    With --output json, prints one object per value. Counters cover all updates whose events are in the event log.
    """
    invocation = invocation_of(context)
    name = invocation.location.settings().name
    samples = invocation.open().metrics(tables=tables)
    text = prometheus_text(name, samples)
    if file is None:
        invocation.result(text.rstrip("\n"), json_of(name, samples), folds=False)
        return
    try:
        replace_file(file.absolute(), text)
    except OSError as error:
        raise PipelineError("METRICS.NOT_WRITTEN", path=file, reason=error.strerror or str(error)) from error
    invocation.result(f"written to {file}", {"file": str(file)})

"""The verb that prints metrics. It starts no JVM."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.atomic_write import replace_file
from headrace.cli.invocation import invocation_of
from headrace.errors import PipelineError
from headrace.metrics.exposition import json_of, prometheus_text


class Form(str, Enum):
    """A format of metrics."""

    PROMETHEUS = "prometheus"
    JSON = "json"


def metrics(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="PATH", help="Write to a file, atomically, for a collector of text files."),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="The format of the metrics.")] = Form.PROMETHEUS,
    tables: Annotated[bool, typer.Option(help="Include rows, bytes and files of each table.")] = True,  # noqa: FBT002 - an option of the command line
) -> None:
    """Print metrics of the pipeline in Prometheus' text format, or as JSON.

    In JSON, there is one object per value. Counters cover all updates whose events are in the event log.
    """
    invocation = invocation_of(context)
    name = invocation.location.settings().name
    samples = invocation.open().metrics(tables=tables)
    values = json_of(name, samples)
    text = prometheus_text(name, samples) if form is Form.PROMETHEUS else json.dumps(values, indent=2) + "\n"
    if file is None:
        invocation.result(text.rstrip("\n"), values)
        return
    try:
        replace_file(file.absolute(), text)
    except OSError as error:
        raise PipelineError("METRICS.NOT_WRITTEN", path=file, reason=error.strerror or str(error)) from error
    invocation.result(f"written to {file}", {"file": str(file)})

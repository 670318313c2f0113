"""The verb that prints metrics. It starts no JVM."""

from __future__ import annotations

import json
import os
import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.atomic_write import replace_file
from headrace.cli.invocation import invocation_of
from headrace.errors import PipelineError
from headrace.metrics.exposition import json_of, prometheus_text
from headrace.metrics.otlp import push_metrics
from headrace.model.version import __version__
from headrace.project.inspection.pipeline_metrics import metrics_of


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
    form: Annotated[
        Form, typer.Option("--format", help="The format on the terminal or in the file.")
    ] = Form.PROMETHEUS,
    otlp: Annotated[
        str | None,
        typer.Option("--otlp", metavar="URL", help="Push to an OpenTelemetry collector, over HTTP."),
    ] = None,
    tables: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--tables/--no-tables", help="Include what tables and checkpoints tell.")
    ] = True,
) -> None:
    """Print metrics of the pipeline in Prometheus' text format, or as JSON.

    In JSON, there is one object per value. Counters cover all updates whose events are in the event log.
    """
    invocation = invocation_of(context)
    settings = invocation.location.settings()
    name, samples = settings.name, metrics_of(settings, os.environ, tables=tables)
    values = json_of(name, samples)
    text = prometheus_text(name, samples) if form is Form.PROMETHEUS else json.dumps(values, indent=2) + "\n"
    if file is None and otlp is None:
        invocation.result(text.rstrip("\n"), values, folds=False)
        return
    done = {}
    if file is not None:
        _write(file, text)
        done["file"] = str(file)
    if otlp is not None:
        push_metrics(otlp, name, samples, now=time.time(), version=__version__)
        done["otlp"] = otlp
    verbs = {"file": "written", "otlp": "pushed"}
    invocation.result("\n".join(f"{verbs[kind]} to {place}" for kind, place in done.items()), done)


def _write(file: Path, text: str) -> None:
    try:
        replace_file(file.absolute(), text)
    except OSError as error:
        raise PipelineError("METRICS.NOT_WRITTEN", path=file, reason=error.strerror or str(error)) from error

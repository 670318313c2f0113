"""The verbs on the locked connector jars: jars list and sync."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

import typer

from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.tables import text_table
from headrace.connectors.fetch import JarReport, jars_report
from headrace.connectors.fetch import jars as fetch_jars
from headrace.connectors.lock import connectors

app = typer.Typer(help="List and download the locked connector jars.", no_args_is_help=False, add_completion=False)


@app.command("list")
def list_jars(context: typer.Context) -> None:
    """List the locked jars and their state in the cache. Downloads nothing."""
    _show(invocation_of(context), jars_report(environ=os.environ))


@app.command("sync")
def sync(context: typer.Context) -> None:
    """Download missing jars and verify all locked jars. Also stores Java classes for faster starts."""
    invocation = invocation_of(context)
    fetch_jars(connectors(), environ=os.environ)
    # Imported by name, so that the other verbs start without Spark.
    import_module("headrace.project.create_class_archive").make_class_archive(os.environ)
    _show(invocation, jars_report(environ=os.environ))


def _show(invocation: Invocation, reports: Sequence[JarReport]) -> None:
    lines = [(report.connector, report.jar.coordinates, report.jar.size, report.state.value) for report in reports]
    text = text_table(("connector", "jar", "bytes", "state"), lines, width=invocation.width)
    invocation.result(text, [report.to_json() for report in reports])

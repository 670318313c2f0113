"""The groups of verbs, such as ``checkpoints list``."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from headrace.cli import alerts, checkpoints, docs, fs, jars, quarantine, state

GROUPS: Mapping[str, typer.Typer] = {
    "quarantine": quarantine.app,
    "alerts": alerts.app,
    "checkpoints": checkpoints.app,
    "state": state.app,
    docs.NAME: docs.app,
    "jars": jars.app,
    "fs": fs.app,
}

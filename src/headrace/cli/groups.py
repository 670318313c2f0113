"""The groups of verbs, such as ``checkpoints list``."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from headrace.cli import alerts, assist, checkpoints, fs, jars, quarantine, state

GROUPS: Mapping[str, typer.Typer] = {
    "quarantine": quarantine.app,
    "alerts": alerts.app,
    "checkpoints": checkpoints.app,
    "state": state.app,
    "assist": assist.app,
    "jars": jars.app,
    "fs": fs.app,
}

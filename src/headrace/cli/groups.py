"""The groups of verbs, such as ``headrace quarantine list``."""

from __future__ import annotations

import typer

from headrace.cli import alerts, checkpoints, fs, jars, quarantine

GROUPS: tuple[tuple[str, typer.Typer], ...] = (
    ("quarantine", quarantine.app),
    ("alerts", alerts.app),
    ("checkpoints", checkpoints.app),
    ("jars", jars.app),
    ("fs", fs.app),
)

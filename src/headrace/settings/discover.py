"""Finds the settings file of a project."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PipelineError

# The first family with a file in the folder wins; the second is SDP's own file.
FAMILIES = (("pipeline.yml", "pipeline.yaml", "pipeline.json"), ("spark-pipeline.yml", "spark-pipeline.yaml"))


def find_settings(start: Path) -> Path:
    """The settings file of the folder *start*, or of the nearest folder above it that has one.

    Raises:
        PipelineError: SETTINGS.NOT_FOUND, or SETTINGS.AMBIGUOUS when a folder has two files of one family.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        for family in FAMILIES:
            present = [folder / name for name in family if (folder / name).is_file()]
            if len(present) > 1:
                raise PipelineError("SETTINGS.AMBIGUOUS", folder=folder, first=present[0].name, second=present[1].name)
            if present:
                return present[0]
    raise PipelineError("SETTINGS.NOT_FOUND", start=start)

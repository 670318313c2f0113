"""What a design is made from: the requirements file, samples, a measured table, and the record of the project."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from headrace.assistant.design.assumed import NOTHING_ASSUMED
from headrace.assistant.design.design import Design, make_design
from headrace.assistant.design.parse import parse_requirements
from headrace.assistant.design.record import RECORD_FILE, DesignRecord, InvalidRecord
from headrace.assistant.design.requirement_keys import ERRORS
from headrace.assistant.design.requirements import Column, Requirements
from headrace.assistant.design.sample_schema import columns_of_sample
from headrace.assistant.design.sampling.compare import compare
from headrace.assistant.design.sampling.finding import Findings
from headrace.cli.design_sample_text import Sampled
from headrace.delta_log.lateness import measure_lateness
from headrace.errors import PipelineError
from headrace.model.lateness import Lateness
from headrace.settings.document import read_text

_COMMITS = 1000
# Loaded by name, because it loads the readers of files.
_SAMPLES = "headrace.cli.design_samples"


@dataclass(frozen=True)
class MadeDesign:
    """A design, what samples say, and the record of the last design of its project."""

    design: Design
    sampled: Sampled
    record: DesignRecord | None


@dataclass(frozen=True)
class RequirementsFile:
    """A file with requirements.

    Attributes:
        path: of the file.
        base: the folder that the paths in it are relative to; its own folder by default.
    """

    path: Path
    base: Path | None = None

    def resolve(self, path: str) -> Path:
        """A path in the requirements, from the current folder."""
        return (self.path.parent if self.base is None else self.base) / path


def make_from_files(
    file: RequirementsFile, folder: Path | None, samples: Sequence[str], *, defaults: bool
) -> MadeDesign:
    """The design of a requirements file, as it is made for the project in a folder.

    What the project's record says about answers still holds for its own requirements: defaults are taken again, and
    proposals and measurements keep their figures.

    Raises:
        PipelineError, Problems: the requirements, the record or a sample cannot be read, or no design is possible.
    """
    record = None if folder is None else read_record(folder)
    requirements, earlier = read_requirements(file), NOTHING_ASSUMED
    if record is not None:
        requirements, earlier = record.still_assumed(requirements)
    sampled = with_samples(requirements, samples)
    assumed = replace(earlier, findings=_both(earlier.findings, sampled))
    measured = _measured(sampled.requirements, file)
    made = make_design(sampled.requirements, defaults=defaults, measured=measured, assumed=assumed)
    return MadeDesign(made, sampled, record)


def _both(earlier: Findings, sampled: Sampled) -> Findings:
    """What earlier samples proposed, and what new ones say; contradictions are those of the newest samples."""
    if not sampled.measures:
        return earlier
    known = [one for one in earlier.proposals if one.path not in sampled.findings.by_path]
    return Findings((*known, *sampled.findings.proposals), sampled.findings.contradictions)


def read_record(folder: Path) -> DesignRecord | None:
    """The record of the last design of a project; None if it has none.

    Raises:
        PipelineError: DESIGN.RECORD.
    """
    file = folder / RECORD_FILE
    try:
        return DesignRecord.from_text(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, InvalidRecord) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PipelineError("DESIGN.RECORD", path=file, reason=reason) from error


def read_requirements(file: RequirementsFile) -> Requirements:
    """The requirements in a file.

    Raises:
        PipelineError, Problems: it cannot be read, or is wrong.
    """

    def sample_columns(path: str) -> tuple[Column, ...]:
        return columns_of_sample(read_text(file.resolve(path), ERRORS), path)

    return parse_requirements(read_text(file.path, ERRORS), file.path.name, sample_columns)


def _measured(requirements: Requirements, file: RequirementsFile) -> Lateness | None:
    """The lateness of past events, if the requirements name a table of them.

    Raises:
        PipelineError: DESIGN.NOT_MEASURED, LATENESS.NO_TIME.
    """
    table = requirements.lateness.measure_from
    column = next((source.event_time for source in requirements.sources if source.event_time), None)
    if table is None or column is None:
        return None
    path = file.resolve(table)
    if not (path / "_delta_log").is_dir():
        raise PipelineError("DESIGN.NOT_MEASURED", table=table)
    dropped = 1 - requirements.lateness.share
    return measure_lateness(str(path), table, column, _COMMITS, dropped, time.time())


def with_samples(requirements: Requirements, samples: Sequence[str]) -> Sampled:
    """The requirements with what samples propose.

    Raises:
        PipelineError: DESIGN.SAMPLE.
        Problems: DESIGN.SAMPLE_DIFFERS.
    """
    if not samples:
        return Sampled(requirements)
    measures = import_module(_SAMPLES).measure_samples(requirements, samples)
    return Sampled(*compare(requirements, measures), measures)

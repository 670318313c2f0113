"""The result of loading a project's files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import AnalysisException

from headrace.errors import PipelineError
from headrace.model.datasets import Definitions
from headrace.model.hooks import EventHook
from headrace.model.location import Location
from headrace.settings.requirements import UnreadableRequirement, printable_words, requirements_of, unmet_requirement


@dataclass(frozen=True)
class LoadResult:
    """The declarations of the files, and every problem found while loading them.

    ``notices`` are reported once per update, each with its code. ``notebooks`` are the notebooks that were read,
    including those that others run.
    """

    definitions: Definitions
    problems: tuple[PipelineError, ...] = ()
    notices: tuple[tuple[str, str], ...] = ()
    notebooks: tuple[Path, ...] = ()
    hooks: tuple[EventHook, ...] = ()


@dataclass
class PackageChecker:
    """Compares the packages that a project requires with the environment; reports each once."""

    problems: list[PipelineError]
    notices: list[tuple[str, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def check(self, words: str, folder: Path, location: Location) -> None:
        """Check the arguments of one ``pip install``."""
        try:
            requirements = requirements_of(words, folder)
        except UnreadableRequirement as error:
            text = printable_words(words)
            self.problems.append(PipelineError("PACKAGE.UNREADABLE", location=location, text=text, reason=error))
            return
        for requirement in requirements:
            unmet = unmet_requirement(requirement)
            if unmet is None or unmet.requirement in self._seen:
                continue
            self._seen.add(unmet.requirement)
            if unmet.found is None:
                self.problems.append(PipelineError("PACKAGE.MISSING", location=location, requirement=unmet.requirement))
            else:
                mismatch = f'"{unmet.requirement}" is required at {location}, but {unmet.found} is installed'
                self.notices.append(("PACKAGE.OTHER_VERSION", f"{mismatch}; an update installs no packages"))

    def check_all(self, needed: Iterable[tuple[str, Location]], folder: Path) -> None:
        """Check several lines."""
        for words, location in needed:
            self.check(words, folder, location)


def user_exception(error: BaseException, file: str, location: Location) -> PipelineError:
    """The problem for an exception that a file's code raised while it was loaded."""
    if isinstance(error, AnalysisException) and (error.getCondition() or "").startswith("TABLE_OR_VIEW_NOT_FOUND"):
        table = (error.getMessageParameters() or {}).get("relationName", "?").replace("`", "")
        return PipelineError("FILE.TABLE_UNKNOWN", location=location, file=file, table=table)
    reason = f"{type(error).__name__}: {error}"
    return PipelineError("FILE.RAISED", location=location, file=file, reason=reason)

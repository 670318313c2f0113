"""What loading a project's files gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import AnalysisException

from headrace.errors import PipelineError
from headrace.model.datasets import Definitions
from headrace.model.hooks import EventHook
from headrace.model.location import Location
from headrace.settings.requirements import Unreadable, lacking, printable_words, requirements_of


@dataclass(frozen=True)
class Loaded:
    """What the files declare, and every problem met while loading them.

    ``notices`` are said once per update, each with its code. ``notebooks`` are the notebooks that were read, those
    that others run included.
    """

    definitions: Definitions
    problems: tuple[PipelineError, ...] = ()
    notices: tuple[tuple[str, str], ...] = ()
    notebooks: tuple[Path, ...] = ()
    hooks: tuple[EventHook, ...] = ()


@dataclass
class Needs:
    """Compares the packages that a project asks for with the environment; each is spoken of once."""

    problems: list[PipelineError]
    notices: list[tuple[str, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def check(self, words: str, folder: Path, location: Location) -> None:
        """Compare what the words behind ``pip install`` ask for."""
        try:
            requirements = requirements_of(words, folder)
        except Unreadable as error:
            text = printable_words(words)
            self.problems.append(PipelineError("PACKAGE.UNREADABLE", location=location, text=text, reason=error))
            return
        for requirement in requirements:
            lack = lacking(requirement)
            if lack is None or lack.requirement in self._seen:
                continue
            self._seen.add(lack.requirement)
            if lack.found is None:
                self.problems.append(PipelineError("PACKAGE.MISSING", location=location, requirement=lack.requirement))
            else:
                said = f'"{lack.requirement}" is required at {location}, but {lack.found} is installed'
                self.notices.append(("PACKAGE.OTHER_VERSION", f"{said}; an update installs no packages"))

    def check_all(self, needed: Iterable[tuple[str, Location]], folder: Path) -> None:
        """Compare each of several lines."""
        for words, location in needed:
            self.check(words, folder, location)


def raised(error: BaseException, file: str, place: Location) -> PipelineError:
    """What a file's code has raised while it was loaded, as a problem of the file."""
    if isinstance(error, AnalysisException) and (error.getCondition() or "").startswith("TABLE_OR_VIEW_NOT_FOUND"):
        table = (error.getMessageParameters() or {}).get("relationName", "?").replace("`", "")
        return PipelineError("FILE.TABLE_UNKNOWN", location=place, file=file, table=table)
    reason = f"{type(error).__name__}: {error}"
    return PipelineError("FILE.RAISED", location=place, file=file, reason=reason)

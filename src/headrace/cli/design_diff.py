"""Implements ``headrace design --diff``: what today's rules would change in a project. It writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace import __version__
from headrace.assistant.design.design import Design
from headrace.assistant.design.difference import DecisionDifference, Difference, difference
from headrace.assistant.design.record import DesignRecord
from headrace.cli.design_command import without_own_file
from headrace.cli.design_input import RequirementsFile, make_from_files
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError


def run(
    invocation: Invocation, file: RequirementsFile, out: Path | None, samples: Sequence[str], *, defaults: bool
) -> int:
    """Print what the design of a requirements file would change in its project; 1 if it would change something.

    Raises:
        PipelineError, Problems: there is no project, or no design of its requirements.
    """
    folder = file.path.parent if out is None else out
    if not file.path.exists():
        raise PipelineError("DESIGN.NO_PROJECT", folder=folder, reason=f'there is no file "{file.path.name}"')
    made = make_from_files(file, folder, samples, defaults=defaults)
    found = difference(made.design, made.record, _contents(made.design, made.record, folder, file.path))
    invocation.result("\n".join(_lines(found)), found.to_json(), folds=False)
    return FAILED if found.changes else DONE


def _contents(design: Design, record: DesignRecord | None, folder: Path, file: Path) -> dict[str, bytes | None]:
    """The content of each file of the design, and of the one before it; not of the requirements themselves."""
    paths = [*design.files, *(path for path in (record.files if record else ()) if path not in design.files)]
    wanted = without_own_file(dict.fromkeys(paths, ""), folder, file)
    contents = {path: _content(folder / path) for path in wanted}
    if record is None and not any(content is not None for content in contents.values()):
        raise PipelineError("DESIGN.NO_PROJECT", folder=folder, reason="it has none of the files of the design")
    return contents


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PipelineError("DESIGN.NOT_READ", path=file, reason=error.strerror or str(error)) from error


def _lines(found: Difference) -> Iterator[str]:
    yield _cause(found)
    for decision in found.decisions:
        yield from ("", *_decision(decision))
    if found.files:
        yield ""
        rows = [(one.path, one.state.value, one.state.meaning) for one in found.files]
        yield text_table(("file", "state", "meaning"), rows)
    for one in found.files:
        # Diffs of sample records are long; the JSON has them.
        if one.diff and not one.path.startswith("sample/"):
            yield ""
            yield from (printable(line, keep="\t") for line in one.diff.removesuffix("\n").split("\n"))
    yield ""
    edited = len(found.files) - found.changes
    kept = f"; {edited} edited {'file stays' if edited == 1 else 'files stay'}" if edited else ""
    yield f"{_count(found.changes, 'file')} and {_count(len(found.decisions), 'decision')} would change{kept}"
    if found.changes:
        yield "nothing was written: --out DIR replaces files that nobody has edited, and with --force all that differ"


def _cause(found: Difference) -> str:
    if found.made_with is None:
        return "this project has no record of its design, so edits and changed rules are not told apart"
    requirements = "have changed since" if found.requirements_changed else "are the same"
    now = "" if found.made_with == __version__ else f" and this is {__version__};"
    return f"headrace {found.made_with} made the design;{now} the requirements {requirements}"


def _decision(decision: DecisionDifference) -> Iterator[str]:
    before, now = decision.before, decision.now
    yield f"{'+' if before is None else '-' if now is None else '~'} {decision.id}"
    if before is not None:
        yield f"  before: {before[0]}, because {before[1]}"
    if now is not None:
        yield f"  now: {now[0]}, because {now[1]}"
        yield f"  page: {decision.page}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

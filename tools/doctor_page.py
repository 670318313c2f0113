"""The page of the doctor's checks and of the success criteria."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.doctor.checks import Check, checks
from headrace.assistant.doctor.criteria import Criterion, criteria

_START = """\
# Checks of the doctor

`headrace doctor` runs these checks. It reads the storage, the event log, the settings and the program text, and starts no
Java: what only the analyzed plan shows, it leaves to `headrace plan` and `headrace explain`.
[Find out what is wrong](../how-to/find-out-what-is-wrong.md) shows how to use it.

The checks stand in causal order: of two findings with the same severity, the first one may be the cause of the other.
`doctor` shows errors first, then warnings, then advice, and in each of them upstream tables first.

| check | severity | what is wrong | evidence from |
|---|---|---|---|
"""
_CHECKS = """
An alert with the severity `bad` is an error, `warn` a warning and `info` an advice. A failed flow is an error, whatever the
severity of its check.

## Remedies

"""
_CRITERIA = """
## Success criteria

`headrace check` shows each criterion as `pass`, `fail` or `unknown`, with the evidence and the next step. A criterion
passes only with evidence; unknown is not passed, and fails with `--strict`.

| criterion | it is met when | a finding of these checks fails it |
|---|---|---|
"""
_POINTS = """
The points of checklists and best practices that each criterion covers:

"""


def doctor_page() -> str:
    """The expected text of docs/reference/doctor.md."""
    rows = "".join(
        f"| [`{one.check_id}`](#{one.check_id}) | {one.severity.value} | {_cell(one.means)} | {_cell(one.reads)} |\n"
        for one in checks().values()
    )
    sections = "\n".join(map(_section, checks().values()))
    met = "".join(f"| `{one.criterion_id}` | {_cell(one.means)} | {_failing(one)} |\n" for one in criteria().values())
    points = "".join(f"- `{one.criterion_id}`: {'; '.join(one.points)}\n" for one in criteria().values())
    return f"{_START}{rows}{_CHECKS}{sections}{_CRITERIA}{met}{_POINTS}{points}"


def _section(check: Check) -> str:
    return f"### {check.check_id}\n\n{check.title}. {check.remedy}\n{''.join(_sources(check))}"


def _sources(check: Check) -> Iterator[str]:
    """The codes, rules and warnings that it stands for."""
    for label, names in (
        ("errors", sorted(check.errors)),
        ("warnings", check.warnings),
        ("alerts", check.alerts),
        ("lint rules", check.lint),
    ):
        if names:
            yield f"\n{label.capitalize()}: {', '.join(f'`{name}`' for name in names)}.\n"


def _failing(criterion: Criterion) -> str:
    advised = [name for name in criterion.with_advice if name not in criterion.checks]
    return ", ".join(f"`{name}`" for name in (*criterion.checks, *advised)) or "none"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

"""What the program text shows without running it: lint rules, readers without a limit, ingestion without a net."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from statistics import median

from headrace.assistant.doctor.checks import Severity, checks_by
from headrace.assistant.doctor.edits import settings_edit
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.findings import Finding, found
from headrace.assistant.doctor.lint_edits import lint_edit
from headrace.assistant.doctor.programs import dataset_at
from headrace.assistant.doctor.stream_readers import stream_readers
from headrace.lint.rules import Severity as LintSeverity
from headrace.model.dead_letter_policy import FAILING_ROWS_KEY

# A first batch of so many times the rows of a usual one, and of so many rows.
MUCH_MORE, LEAST_ROWS = 10, 1000
_FILES = "maxFilesPerTrigger"
_FILES_LIMIT = 1000
_AUTO_LOADER = "auto loader"
_FAIL = "failOnDataLoss"


def examine_lint(facts: Facts) -> Iterator[Finding]:
    """What lint finds that is a check of the doctor too."""
    by_rule = checks_by("lint")
    for file in facts.programs:
        for violation in file.violations:
            check = by_rule.get(violation.rule.id)
            if check is None:
                continue
            line = file.line_at(violation.location)
            name = dataset_at(file, line) if line is not None else None
            dataset = facts.full_name(name) if name is not None else None
            flow = facts.flow_into(dataset) if dataset is not None else None
            edit = lint_edit(facts, file, violation, flow)
            yield found(
                check.check_id,
                f"{violation.location}: {violation.message}",
                severity=Severity.ERROR if violation.severity is LintSeverity.ERROR else check.severity,
                remedy=f"{check.remedy} Such as: {violation.fix}",
                flow=flow,
                dataset=dataset,
                edit=edit,
                command=_after_edit(facts, dataset) if edit is not None else None,
            )


def _after_edit(facts: Facts, dataset: str | None) -> str:
    """The command after a change of a query: its state no longer fits if the flow has run."""
    has_run = any(flow.dataset == dataset and flow.has_state for flow in facts.flows)
    return f"headrace run --full-refresh {shlex.quote(dataset)}" if has_run and dataset else "headrace run"


def examine_rate_limits(facts: Facts) -> Iterator[Finding]:
    """Readers without a limit, whose first batch was far larger than the others."""
    for reader in stream_readers(facts.programs):
        option = reader.missing_limit
        dataset = facts.full_name(reader.dataset)
        flow = facts.flow_into(dataset)
        rows = facts.logged.first_rows.get(flow or "", ())
        if option is None or len(rows) < 3:
            continue
        usual = median(rows[1:])
        if rows[0] < max(MUCH_MORE * usual, LEAST_ROWS):
            continue
        limit = _FILES_LIMIT if option == _FILES else _rounded(MUCH_MORE * max(usual, 1))
        evidence = (
            f'{reader.file.name}:{reader.line}: the {reader.format} reader of "{dataset}" has no {option}; its '
            f"first batch had {rows[0]:,} rows, a usual one has {usual:,.0f}"
        )
        yield found(
            "no-rate-limit",
            evidence,
            flow=flow,
            dataset=dataset,
            edit=reader.with_option(option, str(limit)),
            command="headrace run",
        )


def _rounded(number: float) -> int:
    """The number with one significant digit, rounded up."""
    unit = int(f"1{'0' * (len(str(int(number))) - 1)}")
    return math.ceil(number / unit) * unit


def examine_error_handling(facts: Facts) -> Iterator[Finding]:
    """Flows that ingest data without expectations, here or in a table that reads it, and without dead letters."""
    if facts.settings.on_failing_rows.is_enabled or any(FAILING_ROWS_KEY in file.text for file in facts.programs):
        # A program can set it for single flows, in more ways than its text shows.
        return
    for flow in facts.logged.flows.values():
        streams = [given for given in flow.external_inputs if given.kind != "batch"]
        # What does not fit is in the rescued data column of Auto Loader.
        risky = [given for given in streams if given.kind != _AUTO_LOADER]
        if risky and not has_expectations(facts, flow.dataset):
            edit = settings_edit(
                facts.settings_file,
                facts.settings_text,
                ("configuration", FAILING_ROWS_KEY),
                "quarantine",
                profile=facts.settings.profile,
            )
            evidence = (
                f'flow "{flow.flow}" reads {risky[0].name}; neither "{flow.dataset}" nor a table that reads it has '
                "expectations, and records that its query fails on are no dead letters"
            )
            yield found(
                "errors-unhandled",
                evidence,
                flow=flow.flow,
                dataset=flow.dataset,
                edit=edit,
                command="headrace run",
            )


def has_expectations(facts: Facts, dataset: str) -> bool:
    """Whether a dataset, or one downstream of it, has expectations."""
    waiting, seen = [dataset], set[str]()
    while waiting:
        name = waiting.pop()
        defined = facts.logged.datasets.get(name)
        if defined is not None and defined.expectations:
            return True
        seen.add(name)
        waiting += [reader for reader in facts.readers_of(name) if reader not in seen]
    return False


def examine_hidden_loss(facts: Facts) -> Iterator[Finding]:
    """Readers that go on, without failing, when their source has lost records."""
    for reader in stream_readers(facts.programs):
        if reader.options.get(_FAIL.lower(), "").strip("'\"").casefold() == "false":
            dataset = facts.full_name(reader.dataset)
            yield found(
                "data-lost",
                f'{reader.file.name}:{reader.line}: the reader of "{dataset}" goes on when records are lost',
                severity=Severity.ADVICE,
                flow=facts.flow_into(dataset),
                dataset=dataset,
                edit=reader.with_option(_FAIL, reader.literal("true")),
                command="headrace run",
            )

"""Exact edits, and the command to run after each, for findings whose remedy is a change of a file."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headrace.assistant.doctor.edits import settings_edit
from headrace.assistant.doctor.examine.progress import bottleneck
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.findings import Edit, Finding, lines_of
from headrace.assistant.doctor.programs import Watermark, is_of, watermarks
from headrace.assistant.doctor.stream_reader import StreamReader
from headrace.assistant.doctor.stream_readers import stream_readers
from headrace.metrics import catalogue
from headrace.metrics.bottleneck import WAITING
from headrace.model.dead_letter_policy import FAILING_ROWS_KEY
from headrace.model.lateness import duration
from headrace.model.triggers import INTERVAL_KEY, InvalidInterval, parse_interval_s
from headrace.settings.memory import DRIVER_MEMORY_KEY, driver_memory_bytes
from headrace.settings.secrets import has_reference

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_AHEAD = "1 HOUR"
# Of the machine; the rest is for Python, RocksDB and the system.
_MOST_FOR_JAVA = 0.6
_MORE, _LONGER = 10, 1.5
# Errors of single records, which can become dead letters.
_ROW_ERRORS = ("FLOW.FAILED", "FLOW.USER_CODE", "CONFLUENT.PAYLOAD")
_EVOLUTION = "cloudFiles.schemaEvolutionMode"
_RUN = "headrace run"
_SECRET_SETTING = re.compile(r"password|secret|token|credential|(?:access|account)[._-]?key", re.IGNORECASE)

# An edit and the command to run after it; None if nothing exact is known.
Change = tuple[Edit, str]


def with_edit(finding: Finding, facts: Facts) -> Finding:
    """The finding with its edit, if it has none and there is one; without an edit of a line that has a secret."""
    if finding.edit is not None:
        return replace(finding, edit=None, command=None) if _shows_secret(finding.edit, facts) else finding
    find = _CHANGES.get(finding.check.check_id)
    change = find(finding, facts) if find is not None else None
    if change is None or _shows_secret(change[0], facts):
        return finding
    return replace(finding, edit=change[0], command=change[1])


def _shows_secret(edit: Edit, facts: Facts) -> bool:
    """Whether the line that an edit replaces has a secret, which the edit would show again."""
    texts = {facts.settings_file: facts.settings_text, **{file.name: file.text for file in facts.programs}}
    line = next(iter(lines_of(texts[edit.file])[edit.line - 1 : edit.line]), "")
    if edit.file == facts.settings_file:
        return _SECRET_SETTING.search(line) is not None and not has_reference(line)
    file = next(file for file in facts.programs if file.name == edit.file)
    # A notebook in JSON escapes some characters of its code.
    code = next(iter(lines_of(file.code)[edit.line - 1 : edit.line]), "")
    return any(secret in text for secret in file.secrets for text in (line, code))


def _setting(facts: Facts, path: Sequence[str], value: str) -> Edit | None:
    return settings_edit(facts.settings_file, facts.settings_text, path, value, profile=facts.settings.profile)


def _rebuild(finding: Finding) -> str:
    return f"{_RUN} --full-refresh {shlex.quote(finding.dataset or '')}"


def _watermark_of(finding: Finding, facts: Facts) -> Watermark | None:
    """The watermark of the finding's dataset, if its query has exactly one that the program shows."""
    own = [found for found in watermarks(facts.programs) if is_of(finding.dataset, found.dataset)]
    return own[0] if len(own) == 1 else None


def _readers_of(finding: Finding, facts: Facts) -> list[StreamReader]:
    return [reader for reader in stream_readers(facts.programs) if is_of(finding.dataset, reader.dataset)]


def _longer_delay(finding: Finding, facts: Facts) -> Change | None:
    """The delay that keeps nearly all of the rows that the flow has read so far."""
    watermark = _watermark_of(finding, facts)
    flow = facts.logged.flows.get(finding.flow or "")
    if watermark is None or flow is None or len(flow.inputs) != 1:
        return None
    needed_s, delay_s = facts.lateness_s.get((flow.inputs[0], watermark.column)), seconds_of(watermark.delay)
    if needed_s is None or delay_s is None or needed_s <= delay_s:
        return None
    edit = watermark.with_delay(duration(needed_s))
    return None if edit is None else (edit, _rebuild(finding))


def seconds_of(delay: str) -> float | None:
    """The seconds of a delay, also with several units, such as ``1 hour 30 minutes``; None if it has another form."""
    words = delay.split()
    parts = [" ".join(words[at : at + 2]) for at in range(0, len(words), 2)] if len(words) > 2 else [delay]
    try:
        return sum(parse_interval_s(part) for part in parts)
    except InvalidInterval:
        return None


def _without_future(finding: Finding, facts: Facts) -> Change | None:
    watermark = _watermark_of(finding, facts)
    if watermark is None:
        return None
    edit = watermark.after(f'filter("`{watermark.column}` <= current_timestamp() + INTERVAL {_AHEAD}")')
    return None if edit is None else (edit, _rebuild(finding))


def _fastest_input(finding: Finding, facts: Facts) -> Change | None:
    if facts.settings.spark_conf.get(_POLICY) == "max":
        return None
    edit = _setting(facts, ("spark_conf", _POLICY), "max")
    # The checkpoint keeps the policy that it was made with.
    return None if edit is None or finding.dataset is None else (edit, _rebuild(finding))


def _more_memory(_finding: Finding, facts: Facts) -> Change | None:
    """Twice the memory, as far as the machine has it."""
    now, most = driver_memory_bytes(facts.settings), _MOST_FOR_JAVA * facts.machine.memory_bytes
    wanted_gib = math.floor(min(2 * now, most) / (1 << 30))
    if not now or wanted_gib << 30 <= now:
        return None
    edit = _setting(facts, ("spark_conf", DRIVER_MEMORY_KEY), f"{wanted_gib}g")
    return None if edit is None else (edit, _RUN)


def _larger_batches(finding: Finding, facts: Facts) -> Change | None:
    """A higher rate limit, if the flow mostly waits although it is behind."""
    if bottleneck(facts, finding.flow or "") != WAITING:
        return None
    for reader in _readers_of(finding, facts):
        number = reader.options.get(reader.limit or "", "").strip("'\"").replace("_", "")
        if reader.limit is not None and number.isdecimal():
            edit = reader.with_option(reader.limit, str(_MORE * int(number)))
            return None if edit is None else (edit, _RUN)
    return None


def _longer_interval(finding: Finding, facts: Facts) -> Change | None:
    """An interval that is longer than the batches, if the settings have it."""
    reports = facts.logged.batches.get(finding.flow or "", ())
    interval_s = facts.samples.of(catalogue.TRIGGER_INTERVAL).get((finding.flow or "",), 0)
    if facts.settings.trigger_interval_s is None or not reports or facts.settings.trigger_interval_s != interval_s:
        return None
    taken_s = reports[-1].duration_ms / reports[-1].batches / 1000
    if taken_s <= interval_s:
        return None
    edit = _setting(facts, ("configuration", INTERVAL_KEY), f"{math.ceil(_LONGER * taken_s)} seconds")
    return None if edit is None else (edit, _RUN)


def _dead_letters(finding: Finding, facts: Facts) -> Change | None:
    """Dead letters for records that fail in a flow without state."""
    failure = facts.logged.failures.get(finding.flow or "")
    stored = facts.stored.get(finding.flow or "")
    is_row_error = failure is not None and failure.error.get("code") in _ROW_ERRORS
    is_stateless_stream = stored is None or (not stored.has_state and stored.mode in ("append", "merge"))
    if not is_row_error or not is_stateless_stream or facts.settings.on_failing_rows.accepts_rows:
        return None
    edit = _setting(facts, ("configuration", FAILING_ROWS_KEY), "quarantine")
    return None if edit is None else (edit, _RUN)


def _evolving_schema(finding: Finding, facts: Facts) -> Change | None:
    """A reader of Auto Loader that takes new fields instead of failing."""
    failure = facts.logged.failures.get(finding.flow or "")
    if failure is None or failure.error.get("code") != "AUTO_LOADER.NEW_FIELDS_REFUSED":
        return None
    for reader in _readers_of(finding, facts):
        is_auto_loader = reader.format == "cloudfiles"
        edit = reader.with_option(_EVOLUTION, reader.literal("addNewColumns")) if is_auto_loader else None
        if edit is not None:
            return edit, _RUN
    return None


_CHANGES: Mapping[str, Callable[[Finding, Facts], Change | None]] = {
    "late-dropped": _longer_delay,
    "time-ahead": _without_future,
    "watermark-stuck": _fastest_input,
    "memory-tight": _more_memory,
    "backlog-grows": _larger_batches,
    "batch-slow": _longer_interval,
    "errors-unhandled": _dead_letters,
    "schema-mismatch": _evolving_schema,
}

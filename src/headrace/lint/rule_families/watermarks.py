"""The watermarks of a stream that the text shows."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint import methods
from headrace.lint.program import Program
from headrace.lint.rule_families.columns import mentions
from headrace.lint.values import Frame, text_of

_WATERMARK = "withWatermark"
# Steps that neither rename nor add columns.
_KEEP_COLUMNS = methods.name_set(
    "filter where dropDuplicates drop_duplicates distinct withWatermark alias repartition coalesce hint "
    "drop join limit sample load table dropna fillna broadcast union unionAll unionByName"
)


def has_known_source(frame: Frame) -> bool:
    """Whether the text shows the source of the stream; a name from elsewhere may have a watermark."""
    return all(part.root is None for part in frame.lineage() if part.streaming is not False)


def has_watermark(frame: Frame) -> bool:
    """Whether it has a watermark; watermarks of batches do not count."""
    return any(True for _ in _watermarks(frame))


def watermark_columns(frame: Frame) -> tuple[str, ...]:
    """The columns of its watermarks; empty if one of them is unknown."""
    columns = tuple(_watermarks(frame))
    return tuple(column for column in columns if column is not None) if None not in columns else ()


def may_rename_watermark(program: Program, frame: Frame) -> bool:
    """Whether a step after the watermarks may rename one of their columns."""
    columns = watermark_columns(frame)
    pending, seen = [frame], set[int]()
    while pending:
        part = pending.pop()
        step = part.step
        if id(part) in seen or part.streaming is False or (step is not None and step.name == _WATERMARK):
            continue
        seen.add(id(part))
        pending += part.parents
        if step is None or step.name in _KEEP_COLUMNS:
            continue
        if step.name in ("transform", "sql") or mentions(program, step.node, columns):
            return True
    return False


def _watermarks(frame: Frame) -> Iterator[str | None]:
    for part in frame.lineage():
        if part.step is not None and part.step.name == _WATERMARK and part.streaming is not False:
            yield text_of(part.step.argument(0, "eventTime"))

"""The watermarks of a stream, as far as the text says."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint import methods
from headrace.lint.program import Program
from headrace.lint.rule_families.columns import mentions
from headrace.lint.values import Frame, text_of

_WATERMARK = "withWatermark"
# Steps that neither give a column another name nor make one.
_KEEP_COLUMNS = methods.named(
    "filter where dropDuplicates drop_duplicates distinct withWatermark alias repartition coalesce hint "
    "drop join limit sample load table dropna fillna broadcast union unionAll unionByName"
)


def told(frame: Frame) -> bool:
    """Whether the text says what the stream begins with; a name from elsewhere may bring a watermark."""
    return all(part.root is None for part in frame.lineage() if part.streaming is not False)


def marked(frame: Frame) -> bool:
    """Whether it has a watermark; that of a batch is none."""
    return any(True for _ in _marks(frame))


def marking(frame: Frame) -> tuple[str, ...]:
    """The columns of its watermarks; empty where one of them is not in the text."""
    columns = tuple(_marks(frame))
    return tuple(column for column in columns if column is not None) if None not in columns else ()


def remade(program: Program, frame: Frame) -> bool:
    """Whether a step behind the watermarks may give a column of theirs another name."""
    columns = marking(frame)
    waiting, seen = [frame], set[int]()
    while waiting:
        part = waiting.pop()
        step = part.step
        if id(part) in seen or part.streaming is False or (step is not None and step.name == _WATERMARK):
            continue
        seen.add(id(part))
        waiting += part.parents
        if step is None or step.name in _KEEP_COLUMNS:
            continue
        if step.name in ("transform", "sql") or mentions(program, step.node, columns):
            return True
    return False


def _marks(frame: Frame) -> Iterator[str | None]:
    for part in frame.lineage():
        if part.step is not None and part.step.name == _WATERMARK and part.streaming is not False:
            yield text_of(part.step.given(0, "eventTime"))

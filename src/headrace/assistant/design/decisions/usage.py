"""Whether a stream suits each result, and where its input comes from."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.questions import Question
from headrace.assistant.design.requirements import SourceKind
from headrace.assistant.design.source_defaults import facts_of, options_of
from headrace.assistant.design.suitability import BATCH_LATENCY_S

_PAGE = "guides/when-to-use"
_VIEW = "a materialized view: always right, and computed again in each update"
_STREAM = "a streaming table: reads each record once, and needs state and a watermark"


def usage_decisions(blueprint: Blueprint) -> Iterator[Decision]:
    """A decision for each table and sink: stream or materialized view."""
    for dataset in blueprint.datasets:
        if dataset.output is not None or dataset.kind is DatasetKind.REFERENCE:
            yield _suitability(dataset, blueprint)
    yield from (_connection(view) for view in blueprint.of(DatasetKind.SOURCE, DatasetKind.LIVE))


def default_decisions(taken: tuple[Question, ...]) -> Iterator[Decision]:
    """A decision for each question that was answered by its default."""
    for question in taken:
        if question.default is None:
            continue
        reason = f"default, because the requirements do not say. {question.consequence.removesuffix('.')}"
        yield Decision(f"default.{question.id}", question.default, reason, ("answer the question",), question.page)


def _suitability(dataset: Dataset, blueprint: Blueprint) -> Decision:
    if dataset.kind is DatasetKind.REFERENCE:
        choice, reason = "materialized view", "reference data has no order of arrival; each update reads all of it"
        others: tuple[str, ...] = ("a streaming table: it would keep old versions of each row",)
    elif not dataset.is_stream:
        choice = "materialized view"
        reason = f"every {spoken(dataset.latency_s)}, recomputing costs less than state, and no event is too late"
        others = (_STREAM,)
    elif dataset.kind in (DatasetKind.SCD1, DatasetKind.SCD2):
        choice, reason = "streaming table of change events", "changes are merged as they arrive, in any order"
        others = ("a materialized view over all change events: computed again in each update",)
    elif dataset.kind is DatasetKind.SINK:
        choice, reason = "a flow into a sink", "each new row is delivered once it is in the table that the flow reads"
        others = ("an export that is started by hand: nothing remembers what was delivered",)
    elif dataset.latency_s >= BATCH_LATENCY_S:
        choice = "streaming table"
        reason = "a step that looks at one row only reads each record once, however seldom it runs"
        others = (_VIEW,)
    elif dataset.kind is DatasetKind.JOIN and blueprint.dataset(dataset.reads[0]).kind is DatasetKind.JOIN:
        choice = "streaming table"
        reason = "each join in a row keeps state and waits for late events of its own, so results come later with each"
        others = ("a latency of a day: a materialized view joins all inputs at once, without state",)
    else:
        choice, reason = (
            "streaming table",
            f"new records arrive all the time, and a result may be {spoken(dataset.latency_s)} old",
        )
        others = (_VIEW,)
    return Decision(f"suitability.{dataset.name}", choice, reason, others, _PAGE)


def _connection(view: Dataset) -> Decision:
    source = view.source
    title = facts_of(source).title
    if source.kind in (SourceKind.RATE, SourceKind.SYNTHETIC):
        return Decision(
            f"source.{view.name}",
            f"{title} in the profile production, sample files in the profile sample",
            "it makes test data, without a server",
            ("a real source: replace the kind in the requirements",),
            "guides/sources",
        )
    names = ", ".join(sorted(options_of(source)))
    return Decision(
        f"source.{view.name}",
        f"{title} in the profile production, sample files in the profile sample",
        f"the same code runs without a server; the profile production sets {names}",
        ("a test server with real records",),
        "guides/testing",
    )

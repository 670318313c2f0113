"""Graph to :class:`ResolvedGraph`: call each query once on empty inputs and see what it reads and returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.build import Graph, suggestion
from headrace.graph.change_sources import merged_tables, streamed_as_rows, with_feeds
from headrace.graph.column_checks import column_problems
from headrace.graph.new_tables import marked_merged
from headrace.graph.resolved import Analysis, Mode, ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.graph.table_rules import reading_referred, reads_back, referred, unknown_columns
from headrace.graph.unavailable_sources import AwayFlow, is_away
from headrace.model.datasets import Dataset, Flow, Kind
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema, SchemaConflict
from headrace.model.type_changes import schema_change
from headrace.sinks.checks import row_problems


class MissingInput(Exception):
    """A query read a name that is not published (yet)."""

    def __init__(self, name: QualifiedName | None, spelled: str) -> None:
        self.name = name
        self.spelled = spelled
        super().__init__(spelled)


Kept: TypeAlias = Callable[[Dataset, Sequence[ResolvedFlow]], "Schema | None"]


def _nothing_kept(_dataset: Dataset, _flows: Sequence[ResolvedFlow]) -> Schema | None:
    return None


class Analyzer(Protocol):
    """Calls queries against empty inputs; the only part of resolving that knows Spark."""

    def declared_schema(self, dataset: Dataset) -> Schema | None:
        """The schema that the user declared for a dataset, if any.

        Raises:
            PipelineError: the declaration is not a schema.
        """

    def analyze(self, flow: Flow) -> Analysis:
        """Call the flow's query once; no data is read.

        Raises:
            MissingInput: it reads a name that is neither published nor known outside of the pipeline.
            PipelineError, Problems: the query is wrong.
        """

    def publish(self, dataset: Dataset, schema: Schema, flow: Flow | None) -> None:
        """Make an empty dataset of this schema readable under every spelling of its name.

        *flow* is the query of a view, which is published as it is.
        """

    def check_sink(self, dataset: Dataset) -> tuple[PipelineError, ...]:
        """What is wrong with the format of a sink: nothing in the session writes it."""

    def check_expectations(self, dataset: Dataset, schema: Schema) -> tuple[PipelineError, ...]:
        """What is wrong with the expectations of a dataset over rows of this schema."""


def resolve(
    graph: Graph,
    analyzer: Analyzer,
    path_of: Callable[[QualifiedName], str],
    *,
    problems: tuple[PipelineError, ...],
    only: Collection[QualifiedName] = (),
    kept: Kept = _nothing_kept,
    leaves_out: bool = False,
) -> ResolvedGraph:
    """The resolved graph; the result does not depend on the order of declaration.

    Args:
        graph: from ``build``.
        analyzer: calls the queries.
        path_of: where the table of a stored dataset lies.
        problems: what is already known to be wrong, reported together with what is found here.
        only: datasets to resolve, with all that they read (default: every dataset).
        kept: the columns of the table of a dataset that keeps its rows, or None when it has none; it is given the
            flows that feed the dataset.
        leaves_out: leave out what cannot be resolved because a source is away; otherwise that is a problem.

    Raises:
        Problems: everything that is wrong with the project.
    """
    resolution = _Resolution(graph, analyzer, path_of, kept, leaves_out=leaves_out)
    for name in graph.datasets:
        if not only or name in only:
            resolution.visit(name)
    datasets, feedless = with_feeds(resolution.datasets, resolution.flows)
    found = _without_repeats((*problems, *resolution.problems, *feedless))
    if found:
        raise Problems((*found, *_without_repeats(tuple(away.error for away in resolution.away.values()))))
    away = tuple(resolution.away.values())
    datasets = marked_merged(datasets, resolution.flows)
    return ResolvedGraph(tuple(datasets.values()), tuple(resolution.flows), away)


class _Resolution:
    """The worklist: datasets are visited depth first, driven by the inputs that queries turn out to miss."""

    def __init__(
        self,
        graph: Graph,
        analyzer: Analyzer,
        path_of: Callable[[QualifiedName], str],
        kept: Kept,
        *,
        leaves_out: bool,
    ) -> None:
        self._graph = graph
        self._merged = merged_tables(graph.definitions)
        self._leaves_out = leaves_out
        self._kept = kept
        self._analyzer = analyzer
        self._path_of = path_of
        self._path: list[QualifiedName] = []
        self._broken: set[QualifiedName] = set()
        self.datasets: dict[QualifiedName, ResolvedDataset] = {}
        self.flows: list[ResolvedFlow] = []
        self.problems: list[PipelineError] = []
        # By name.
        self.away: dict[str, AwayFlow] = {}

    def visit(self, name: QualifiedName) -> bool:
        """Resolve a dataset and all that it reads; False when it cannot be."""
        if name in self.datasets:
            return True
        if name in self._broken:
            return False
        self._path.append(name)
        try:
            resolved = self._dataset(self._graph.datasets[name])
        except (PipelineError, Problems) as error:
            self.problems.extend(problems_of(error))
            resolved = False
        finally:
            self._path.pop()
        if not resolved:
            self._broken.add(name)
        return resolved

    def _dataset(self, dataset: Dataset) -> bool:
        declared = self._analyzer.declared_schema(dataset)
        analyzed = [(flow, self._analyze(flow)) for flow in self._graph.flows_into(dataset.name)]
        complete = [(flow, analysis) for flow, analysis in analyzed if analysis is not None]
        missing = [flow for flow, analysis in analyzed if analysis is None]
        if any(flow.name not in self.away for flow in missing) or (analyzed and not complete):
            return False
        if dataset.sink is not None:
            return self._sink(dataset, complete)
        if not complete:
            return False
        dataset = dataset.with_kind(_decided_kind(dataset, complete))
        flows = [ResolvedFlow(flow, _mode(dataset, flow, analysis), analysis) for flow, analysis in complete]
        if not self._resolved_referred(dataset, flows):
            return False
        flows = [reading_referred(flow, referred(dataset)) for flow in flows]
        if missing and not self._goes_on(dataset, flows):
            self._leave_out_with(dataset, missing[0], flows)
            return False
        wrong = [problem for flow in flows for problem in _flow_problems(dataset, flow, flows)]
        wrong += self._temporary_inputs(dataset, flows)
        wrong += [problem for flow in flows for problem in streamed_as_rows(flow, self._merged)]
        if wrong:
            raise Problems(wrong)
        schema = _merged_schema(dataset, flows)
        published = declared if declared is not None else schema.commented(dataset.column_comments)
        _check_declared(dataset, declared, schema)
        queried, published = published, self._with_kept(dataset, flows, published)
        broken_rules = unknown_columns(dataset, published, self.datasets) + [
            problem
            for judged in _judged(flows, published)
            for problem in self._analyzer.check_expectations(dataset, judged)
        ]
        if broken_rules:
            raise Problems(broken_rules)
        _check_layout(dataset, queried)
        self._analyzer.publish(dataset, published, None if dataset.kind.stored else flows[0].flow)
        path = self._path_of(dataset.name) if dataset.kind.stored else None
        more = queried if queried != published else None
        self.datasets[dataset.name] = ResolvedDataset(dataset, published, path, more)
        self.flows.extend(flows)
        return True

    def _sink(self, dataset: Dataset, analyzed: list[tuple[Flow, Analysis]]) -> bool:
        """A sink with its flows, each of which may bring other columns; none for one that others hand their rows to."""
        flows = [ResolvedFlow(flow, _mode(dataset, flow, analysis), analysis) for flow, analysis in analyzed]
        members = dataset.sink.members if dataset.sink is not None else ()
        wrong = [problem for flow in flows for problem in _flow_problems(dataset, flow, flows)]
        wrong += [problem for flow in flows for problem in streamed_as_rows(flow, self._merged)]
        for name in members or (dataset.name,):
            target = self._graph.datasets.get(name)
            if target is not None and target.sink is not None:
                wrong += self._analyzer.check_sink(target)
                wrong += [p for flow in flows for p in row_problems(target, flow.flow, flow.analysis.schema)]
        if wrong:
            raise Problems(wrong)
        self.datasets[dataset.name] = ResolvedDataset(dataset, flows[0].analysis.schema if flows else Schema(), None)
        self.flows.extend(flows)
        visited = [self.visit(name) for name in members if name in self._graph.datasets]
        return all(visited)

    def _resolved_referred(self, dataset: Dataset, flows: list[ResolvedFlow]) -> bool:
        """Resolve the tables that rules of a dataset refer to; False when one of them cannot be."""
        for name in referred(dataset):
            if name in self._path:
                raise reads_back(dataset, name)
            if name in self._graph.datasets and not self.visit(name):
                for flow in flows:
                    self._block(flow.flow, name)
                return False
        return True

    def _goes_on(self, dataset: Dataset, flows: list[ResolvedFlow]) -> bool:
        """Whether flows can run without another one into their table: it is there, keeps its rows, and is added to."""
        appends = all(flow.mode in (Mode.APPEND, Mode.ONCE) for flow in flows)
        return dataset.kind is Kind.STREAMING_TABLE and appends and self._kept(dataset, flows) is not None

    def _leave_out_with(self, dataset: Dataset, missing: Flow, flows: list[ResolvedFlow]) -> None:
        error = self.away[missing.name].error
        for flow in flows:
            said = f'flow "{missing.name}" into the same table could not be resolved'
            self.away[flow.name] = AwayFlow(flow.flow, dataset, error, said)

    def _with_kept(self, dataset: Dataset, flows: list[ResolvedFlow], schema: Schema) -> Schema:
        """The columns that the table has once the flows have written: its own, in their order, and new ones."""
        if dataset.kind is not Kind.STREAMING_TABLE or any(flow.mode is Mode.COMPLETE for flow in flows):
            return schema
        table = self._kept(dataset, flows)
        if table is None:
            return schema
        change = schema_change(table, schema)
        # What cannot be brought together is for the plan to say.
        return schema if change.refused else change.result

    def _temporary_inputs(self, dataset: Dataset, flows: list[ResolvedFlow]) -> list[PipelineError]:
        """What a persisted view reads that is not there when it is asked later."""
        if dataset.kind is not Kind.PERSISTED_VIEW:
            return []
        return [
            PipelineError("VIEW.READS_TEMPORARY", location=dataset.location, name=dataset.name, view=given.name)
            for flow in flows
            for given in flow.analysis.inputs
            if self.datasets[given.name].kind is Kind.TEMPORARY_VIEW
        ]

    def _analyze(self, flow: Flow) -> Analysis | None:
        """The analysis of a flow, once what it reads is there; None when it, or an input, is broken."""
        while True:
            try:
                return self._storable(flow, self._analyzer.analyze(flow))
            except MissingInput as missing:
                # One that is published and still missing was spelled in a way that does not lead to it.
                known = self._graph.datasets.get(missing.name) if missing.name is not None else None
                if known is not None and known.kind is Kind.SINK:
                    self.problems.append(
                        PipelineError("SINK.READ", location=flow.location, flow=flow.name, name=missing.name)
                    )
                    return None
                if missing.name not in self._graph.datasets or missing.name in self.datasets:
                    self.problems.append(self._unknown(flow, missing))
                    return None
                if missing.name in self._path:
                    self.problems.append(self._cycle(flow, missing.name))
                    return None
                if not self.visit(missing.name):
                    self._block(flow, missing.name)
                    return None
            except (PipelineError, Problems) as error:
                found = problems_of(error)
                if self._leaves_out and all(map(is_away, found)):
                    self.away[flow.name] = AwayFlow(flow, self._graph.datasets[flow.target], found[0])
                else:
                    self.problems.extend(found)
                return None

    def _storable(self, flow: Flow, analysis: Analysis) -> Analysis:
        """The analysis of a flow whose columns its table can have."""
        problems = column_problems(self._graph.datasets[flow.target], flow, analysis.schema)
        if problems:
            raise Problems(problems)
        return analysis

    def _block(self, flow: Flow, name: QualifiedName) -> None:
        """Leave out what reads a dataset that is left out; who reads a view reads what the view does."""
        cause = next((away for away in self.away.values() if away.target == name), None)
        if cause is not None:
            is_view = self._graph.datasets[name].kind.is_view
            blocked = cause.blocked if is_view else f'input "{name}" was not updated'
            self.away[flow.name] = AwayFlow(flow, self._graph.datasets[flow.target], cause.error, blocked)

    def _unknown(self, flow: Flow, missing: MissingInput) -> PipelineError:
        return PipelineError(
            "GRAPH.UNKNOWN_TABLE",
            location=flow.location,
            flow=flow.name,
            name=missing.spelled,
            suggestion=suggestion(missing.name or missing.spelled, self._graph),
        )

    def _cycle(self, flow: Flow, name: QualifiedName) -> PipelineError:
        circle = [*self._path[self._path.index(name) :], name]
        # The circle starts at the same dataset wherever the visit began.
        start = circle.index(min(circle[:-1]))
        ordered = [*circle[start:-1], *circle[:start], circle[start]]
        return PipelineError(
            "GRAPH.CYCLE", location=flow.location, path=" reads ".join(f'"{part}"' for part in ordered)
        )


def _decided_kind(dataset: Dataset, flows: list[tuple[Flow, Analysis]]) -> Kind:
    if dataset.kind is not Kind.TABLE:
        return dataset.kind
    streaming = any(analysis.streaming or flow.append for flow, analysis in flows)
    return Kind.STREAMING_TABLE if streaming else Kind.MATERIALIZED_VIEW


def _mode(dataset: Dataset, flow: Flow, analysis: Analysis) -> Mode:
    if dataset.kind.is_view:
        return Mode.VIEW
    if dataset.kind is Kind.MATERIALIZED_VIEW:
        return Mode.REPLACE
    if flow.once:
        return Mode.ONCE
    if flow.snapshots is not None:
        return Mode.SNAPSHOT
    if flow.changes is not None:
        return Mode.MERGE
    if flow.updates:
        return Mode.UPDATE
    return Mode.COMPLETE if analysis.complete else Mode.APPEND


_NO_STREAM = {
    Mode.REPLACE: "FLOW.STREAM_FOR_MATERIALIZED_VIEW",
    Mode.ONCE: "FLOW.STREAM_FOR_ONCE",
    Mode.SNAPSHOT: "FLOW.STREAM_FOR_SNAPSHOT",
}
_NO_OTHERS = {
    Mode.REPLACE: "FLOW.SEVERAL_INTO_MATERIALIZED_VIEW",
    Mode.VIEW: "FLOW.SEVERAL_INTO_VIEW",
    Mode.SNAPSHOT: "CDC.SNAPSHOT_NOT_ALONE",
    Mode.COMPLETE: "FLOW.COMPLETE_NOT_ALONE",
}


def _flow_problems(dataset: Dataset, flow: ResolvedFlow, flows: list[ResolvedFlow]) -> list[PipelineError]:
    streaming = flow.analysis.streaming
    code = None
    if streaming and flow.mode in _NO_STREAM:
        code = _NO_STREAM[flow.mode]
    elif dataset.kind is Kind.SINK and flow.mode is Mode.COMPLETE:
        code = "SINK.WHOLE_RESULT"
    elif dataset.kind is Kind.SINK and flow.mode.streams and not streaming:
        code = "SINK.BATCH"
    elif dataset.kind is Kind.PERSISTED_VIEW and streaming:
        code = "FLOW.STREAM_FOR_PERSISTED_VIEW"
    elif len(flows) > 1 and flow.mode in _NO_OTHERS:
        code = _NO_OTHERS[flow.mode]
    elif flow.mode in (Mode.APPEND, Mode.MERGE) and not streaming:
        code = "FLOW.BATCH_FOR_STREAMING_TABLE"
    elif flow.merges:
        code = _merge_problem(flow, flows)
    if code is None:
        return []
    return [PipelineError(code, location=flow.flow.location, flow=flow.name, dataset=dataset.name)]


def _judged(flows: list[ResolvedFlow], published: Schema) -> list[Schema]:
    """The columns that rules can speak of: those of the events that are merged, or the published ones of other rows."""
    feeds = [flow.analysis.feed for flow in flows]
    found = {feed.source_json: Schema.from_json(feed.source_json) for feed in feeds if feed is not None}
    return [*found.values()] or [published]


def _merge_problem(flow: ResolvedFlow, flows: list[ResolvedFlow]) -> str | None:
    if not all(other.merges for other in flows):
        return "CDC.NOT_ALONE"
    return None if _same_rows(flow, flows[0]) else "CDC.OTHER_ROWS"


def _same_rows(flow: ResolvedFlow, other: ResolvedFlow) -> bool:
    """True when the events of two flows can be ordered with each other and become rows in the same way."""
    one, two = flow.analysis.feed, other.analysis.feed
    return one is not None and two is not None and one.agrees_with(two)


def _merged_schema(dataset: Dataset, flows: list[ResolvedFlow]) -> Schema:
    first, *rest = flows
    merged = first.analysis.schema
    for flow in rest:
        try:
            merged = merged.merged(flow.analysis.schema)
        except SchemaConflict as conflict:
            raise PipelineError(
                "DATASET.SCHEMA_CONFLICT",
                location=flow.flow.location,
                name=dataset.name,
                first=first.name,
                second=flow.name,
                conflict=conflict,
            ) from conflict
    if not merged.columns:
        raise PipelineError("DATASET.NO_COLUMNS", location=dataset.location, name=dataset.name)
    return merged


def _check_declared(dataset: Dataset, declared: Schema | None, actual: Schema) -> None:
    if declared is None:
        return
    missing = [column for column in actual.columns if declared.find(column.name) is None]
    changed = [
        (column, match)
        for column in actual.columns
        if (match := declared.find(column.name)) is not None and match.json_type != column.json_type
    ]
    if missing or changed:
        found = [f'"{column.name}" is not declared' for column in missing]
        found += [f'"{have.name}" is {have.type_text}, declared {want.type_text}' for have, want in changed]
        raise PipelineError(
            "DATASET.DECLARED_SCHEMA", location=dataset.location, name=dataset.name, difference="; ".join(found)
        )


def _check_layout(dataset: Dataset, schema: Schema) -> None:
    # A table can be clustered by a field of a struct.
    unknown = [c for c in (*dataset.partition_by, *dataset.cluster_by) if schema.find(c.split(".")[0]) is None]
    if unknown:
        raise PipelineError(
            "DATASET.UNKNOWN_COLUMN",
            location=dataset.location,
            name=dataset.name,
            column=", ".join(f'"{column}"' for column in unknown),
            columns=", ".join(schema.names),
        )


def _without_repeats(problems: tuple[PipelineError, ...]) -> tuple[PipelineError, ...]:
    """Each problem once: a query may be called several times, a cycle is met from several sides."""
    seen: dict[tuple[str, str, str], PipelineError] = {}
    for problem in problems:
        place = "" if problem.code == "GRAPH.CYCLE" else str(problem.location)
        seen.setdefault((problem.code, problem.message, place), problem)
    # That nothing is defined follows from anything else that is wrong.
    return tuple(problem for problem in seen.values() if len(seen) == 1 or problem.code != "GRAPH.EMPTY")

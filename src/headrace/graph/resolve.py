"""Resolves a graph: calls each query once on empty inputs to learn its inputs and its columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from headrace.errors import PipelineError, Problems, problems_of
from headrace.graph.analysis import Analysis
from headrace.graph.build import Graph, suggestion
from headrace.graph.change_sources import append_only_read_problems, merged_tables, with_change_feeds
from headrace.graph.column_checks import column_problems
from headrace.graph.new_tables import with_merge_keys
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import (
    AppendFlow,
    ChangeFlow,
    CompleteFlow,
    MergeFlow,
    OnceFlow,
    OnceMergeFlow,
    RefreshFlow,
    ResolvedFlow,
    SnapshotFlow,
    StreamingFlow,
    ViewFlow,
    resolved_flow,
)
from headrace.graph.table_rules import circular_reference, referenced_tables, unknown_columns, with_referenced_inputs
from headrace.graph.unavailable_sources import UnavailableFlow, is_source_problem
from headrace.model.datasets import Dataset, Flow, Kind
from headrace.model.names import QualifiedName
from headrace.model.pipeline_keys import z_order_columns
from headrace.model.schema import Schema, SchemaConflict
from headrace.model.type_changes import schema_change
from headrace.sinks.checks import row_problems


class MissingInput(Exception):
    """A query read a dataset that is not published yet, or does not exist."""

    def __init__(self, name: QualifiedName | None, text: str) -> None:
        self.name = name
        self.text = text
        super().__init__(text)


StoredSchema: TypeAlias = Callable[[Dataset, Sequence[ResolvedFlow]], "Schema | None"]


def _no_stored_schema(_dataset: Dataset, _flows: Sequence[ResolvedFlow]) -> Schema | None:
    return None


class Analyzer(Protocol):
    """Calls queries on empty inputs. It is the only part of resolving that uses Spark."""

    def declared_schema(self, dataset: Dataset) -> Schema | None:
        """The schema that the user declared for a dataset, if any.

        Raises:
            PipelineError: the declaration is not a schema.
        """

    def analyze(self, flow: Flow) -> Analysis:
        """Call the flow's query once; no data is read.

        Raises:
            MissingInput: it reads a name that is neither published nor known outside the pipeline.
            PipelineError, Problems: the query is wrong.
        """

    def publish(self, dataset: Dataset, schema: Schema, flow: Flow | None) -> None:
        """Make an empty dataset of this schema readable under every spelling of its name.

        *flow* is the flow of a view, whose query is published itself.
        """

    def check_sink(self, dataset: Dataset) -> tuple[PipelineError, ...]:
        """Problems with the format of a sink that the session cannot write."""

    def check_expectations(self, dataset: Dataset, schema: Schema) -> tuple[PipelineError, ...]:
        """Problems with the expectations and metrics of a dataset over rows of this schema."""


def resolve(
    graph: Graph,
    analyzer: Analyzer,
    path_of: Callable[[QualifiedName], str],
    *,
    problems: tuple[PipelineError, ...],
    only: Collection[QualifiedName] = (),
    stored_schema: StoredSchema = _no_stored_schema,
    skip_unavailable: bool = False,
) -> ResolvedGraph:
    """The resolved graph; the result does not depend on the order of declaration.

    Args:
        graph: from ``build``.
        analyzer: calls the queries.
        path_of: the path of a dataset's table.
        problems: known problems, reported together with those found here.
        only: datasets to resolve, with everything upstream of them (default: every dataset).
        stored_schema: returns the schema of the existing table of a dataset and its flows, if the table keeps its
            rows; None if there is no such table.
        skip_unavailable: skip flows that cannot be resolved because a source is unavailable. Otherwise they are
            problems.

    Raises:
        Problems: all problems of the project.
    """
    resolution = _Resolution(graph, analyzer, path_of, stored_schema, skip_unavailable=skip_unavailable)
    for name in graph.datasets:
        if not only or name in only:
            resolution.visit(name)
    datasets, feed_problems = with_change_feeds(resolution.datasets, resolution.flows)
    found = _without_repeats((*problems, *resolution.problems, *feed_problems))
    if found:
        raise Problems(
            (*found, *_without_repeats(tuple(unavailable.error for unavailable in resolution.unavailable.values())))
        )
    unavailable = tuple(resolution.unavailable.values())
    datasets = with_merge_keys(datasets, resolution.flows)
    return ResolvedGraph(tuple(datasets.values()), tuple(resolution.flows), unavailable)


class _Resolution:
    """Visits datasets depth first. A query that misses an input makes its dataset the next one."""

    def __init__(
        self,
        graph: Graph,
        analyzer: Analyzer,
        path_of: Callable[[QualifiedName], str],
        stored_schema: StoredSchema,
        *,
        skip_unavailable: bool,
    ) -> None:
        self._graph = graph
        self._merged = merged_tables(graph.definitions)
        self._skip_unavailable = skip_unavailable
        self._stored_schema = stored_schema
        self._analyzer = analyzer
        self._path_of = path_of
        self._path: list[QualifiedName] = []
        self._failed: set[QualifiedName] = set()
        self.datasets: dict[QualifiedName, ResolvedDataset] = {}
        self.flows: list[ResolvedFlow] = []
        self.problems: list[PipelineError] = []
        # By name.
        self.unavailable: dict[str, UnavailableFlow] = {}

    def visit(self, name: QualifiedName) -> bool:
        """Resolve a dataset and everything that it reads; False if that fails."""
        if name in self.datasets:
            return True
        if name in self._failed:
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
            self._failed.add(name)
        return resolved

    def _dataset(self, dataset: Dataset) -> bool:
        declared = self._analyzer.declared_schema(dataset)
        analyzed = [(flow, self._analyze(flow)) for flow in self._graph.flows_into(dataset.name)]
        complete = [(flow, analysis) for flow, analysis in analyzed if analysis is not None]
        missing = [flow for flow, analysis in analyzed if analysis is None]
        if any(flow.name not in self.unavailable for flow in missing) or (analyzed and not complete):
            return False
        if dataset.sink is not None:
            return self._sink(dataset, complete)
        if not complete:
            return False
        dataset = dataset.with_kind(_resolved_kind(dataset, complete))
        flows = [resolved_flow(dataset, flow, analysis) for flow, analysis in complete]
        if not self._resolve_referenced(dataset, flows):
            return False
        flows = [with_referenced_inputs(flow, referenced_tables(dataset)) for flow in flows]
        if missing and not self._can_run_without_missing(dataset, flows):
            self._mark_unavailable(dataset, missing[0], flows)
            return False
        wrong = [problem for flow in flows for problem in _flow_problems(dataset, flow, flows)]
        wrong += self._temporary_inputs(dataset, flows)
        wrong += [problem for flow in flows for problem in append_only_read_problems(flow, self._merged)]
        if wrong:
            raise Problems(wrong)
        schema = _merged_schema(dataset, flows)
        published = declared if declared is not None else schema.commented(dataset.column_comments)
        _check_declared(dataset, declared, schema)
        query_schema, published = published, self._with_stored_columns(dataset, flows, published)
        rule_problems = unknown_columns(dataset, published, self.datasets) + [
            problem
            for rule_schema in _rule_schemas(flows, published)
            for problem in self._analyzer.check_expectations(dataset, rule_schema)
        ]
        if rule_problems:
            raise Problems(rule_problems)
        _check_layout(dataset, query_schema)
        self._analyzer.publish(dataset, published, None if dataset.kind.stored else flows[0].flow)
        path = self._path_of(dataset.name) if dataset.kind.stored else None
        more = query_schema if query_schema != published else None
        self.datasets[dataset.name] = ResolvedDataset(dataset, published, path, more)
        self.flows.extend(flows)
        return True

    def _sink(self, dataset: Dataset, analyzed: list[tuple[Flow, Analysis]]) -> bool:
        """Resolve a sink with its flows, which may differ in their columns. A member of a sink may have no flow."""
        flows = [resolved_flow(dataset, flow, analysis) for flow, analysis in analyzed]
        members = dataset.sink.members if dataset.sink is not None else ()
        wrong = [problem for flow in flows for problem in _flow_problems(dataset, flow, flows)]
        wrong += [problem for flow in flows for problem in append_only_read_problems(flow, self._merged)]
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

    def _resolve_referenced(self, dataset: Dataset, flows: list[ResolvedFlow]) -> bool:
        """Resolve the tables that the rules of a dataset refer to; False if one of them fails."""
        for name in referenced_tables(dataset):
            if name in self._path:
                raise circular_reference(dataset, name)
            if name in self._graph.datasets and not self.visit(name):
                for flow in flows:
                    self._block(flow.flow, name)
                return False
        return True

    def _can_run_without_missing(self, dataset: Dataset, flows: list[ResolvedFlow]) -> bool:
        """Whether the flows can run without a missing flow of their table: the table exists and is append-only."""
        appends = all(isinstance(flow, AppendFlow | OnceFlow) for flow in flows)
        return dataset.kind is Kind.STREAMING_TABLE and appends and self._stored_schema(dataset, flows) is not None

    def _mark_unavailable(self, dataset: Dataset, missing: Flow, flows: list[ResolvedFlow]) -> None:
        error = self.unavailable[missing.name].error
        for flow in flows:
            reason = f'flow "{missing.name}" into the same table could not be resolved'
            self.unavailable[flow.name] = UnavailableFlow(flow.flow, dataset, error, reason)

    def _with_stored_columns(self, dataset: Dataset, flows: list[ResolvedFlow], schema: Schema) -> Schema:
        """The columns of the table after the flows have written: its existing ones, in their order, and new ones."""
        if dataset.kind is not Kind.STREAMING_TABLE or any(isinstance(flow, CompleteFlow) for flow in flows):
            return schema
        table = self._stored_schema(dataset, flows)
        if table is None:
            return schema
        change = schema_change(table, schema)
        # The plan reports schemas that cannot be merged.
        return schema if change.refused else change.result

    def _temporary_inputs(self, dataset: Dataset, flows: list[ResolvedFlow]) -> list[PipelineError]:
        """Problems for a persisted view that reads temporary views, which later queries cannot see."""
        if dataset.kind is not Kind.PERSISTED_VIEW:
            return []
        return [
            PipelineError("VIEW.READS_TEMPORARY", location=dataset.location, name=dataset.name, view=given.name)
            for flow in flows
            for given in flow.analysis.inputs
            if self.datasets[given.name].kind is Kind.TEMPORARY_VIEW
        ]

    def _analyze(self, flow: Flow) -> Analysis | None:
        """The analysis of a flow, after its inputs are resolved; None if it or an input failed."""
        while True:
            try:
                return self._storable(flow, self._analyzer.analyze(flow))
            except MissingInput as missing:
                # A published dataset that is still missing has a spelling that does not lead to it.
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
                if self._skip_unavailable and all(map(is_source_problem, found)):
                    self.unavailable[flow.name] = UnavailableFlow(flow, self._graph.datasets[flow.target], found[0])
                else:
                    self.problems.extend(found)
                return None

    def _storable(self, flow: Flow, analysis: Analysis) -> Analysis:
        """The analysis, if the table can store its columns."""
        problems = column_problems(self._graph.datasets[flow.target], flow, analysis.schema)
        if problems:
            raise Problems(problems)
        return analysis

    def _block(self, flow: Flow, name: QualifiedName) -> None:
        """Mark a flow as unavailable if its input is. A flow that reads a view depends on the sources of the view."""
        cause = next((unavailable for unavailable in self.unavailable.values() if unavailable.target == name), None)
        if cause is not None:
            is_view = self._graph.datasets[name].kind.is_view
            blocked = cause.blocked if is_view else f'input "{name}" was not updated'
            target = self._graph.datasets[flow.target]
            self.unavailable[flow.name] = UnavailableFlow(flow, target, cause.error, blocked, name)

    def _unknown(self, flow: Flow, missing: MissingInput) -> PipelineError:
        return PipelineError(
            "GRAPH.UNKNOWN_TABLE",
            location=flow.location,
            flow=flow.name,
            name=missing.text,
            suggestion=suggestion(missing.name or missing.text, self._graph),
        )

    def _cycle(self, flow: Flow, name: QualifiedName) -> PipelineError:
        circle = [*self._path[self._path.index(name) :], name]
        # The reported cycle starts at the same dataset wherever the visit started.
        start = circle.index(min(circle[:-1]))
        ordered = [*circle[start:-1], *circle[:start], circle[start]]
        return PipelineError(
            "GRAPH.CYCLE", location=flow.location, path=" reads ".join(f'"{part}"' for part in ordered)
        )


def _resolved_kind(dataset: Dataset, flows: list[tuple[Flow, Analysis]]) -> Kind:
    if dataset.kind is not Kind.TABLE:
        return dataset.kind
    streaming = any(analysis.streaming or flow.append for flow, analysis in flows)
    return Kind.STREAMING_TABLE if streaming else Kind.MATERIALIZED_VIEW


# Error codes by type of flow: for a query that is a stream, and for a flow that shares its target with others.
_NO_STREAM: dict[type, str] = {
    RefreshFlow: "FLOW.STREAM_FOR_MATERIALIZED_VIEW",
    OnceFlow: "FLOW.STREAM_FOR_ONCE",
    OnceMergeFlow: "FLOW.STREAM_FOR_ONCE",
    SnapshotFlow: "FLOW.STREAM_FOR_SNAPSHOT",
}
_NO_OTHERS: dict[type, str] = {
    RefreshFlow: "FLOW.SEVERAL_INTO_MATERIALIZED_VIEW",
    ViewFlow: "FLOW.SEVERAL_INTO_VIEW",
    SnapshotFlow: "CDC.SNAPSHOT_NOT_ALONE",
    CompleteFlow: "FLOW.COMPLETE_NOT_ALONE",
}


def _flow_problems(dataset: Dataset, flow: ResolvedFlow, flows: list[ResolvedFlow]) -> list[PipelineError]:
    streaming = flow.analysis.streaming
    code = None
    if streaming and type(flow) in _NO_STREAM:
        code = _NO_STREAM[type(flow)]
    elif dataset.kind is Kind.SINK and isinstance(flow, CompleteFlow):
        code = "SINK.WHOLE_RESULT"
    elif dataset.kind is Kind.SINK and isinstance(flow, StreamingFlow) and not streaming:
        code = "SINK.BATCH"
    elif dataset.kind is Kind.PERSISTED_VIEW and streaming:
        code = "FLOW.STREAM_FOR_PERSISTED_VIEW"
    elif len(flows) > 1 and type(flow) in _NO_OTHERS:
        code = _NO_OTHERS[type(flow)]
    elif isinstance(flow, AppendFlow | MergeFlow) and not streaming:
        code = "FLOW.BATCH_FOR_STREAMING_TABLE"
    elif isinstance(flow, ChangeFlow):
        code = _merge_problem(flow, flows)
    if code is None:
        return []
    return [PipelineError(code, location=flow.flow.location, flow=flow.name, dataset=dataset.name)]


def _rule_schemas(flows: list[ResolvedFlow], published: Schema) -> list[Schema]:
    """The schemas that rules apply to: those of the merged events, or the published schema of other rows."""
    sources = dict.fromkeys(flow.feed.source_json for flow in flows if isinstance(flow, ChangeFlow))
    return [Schema.from_json(source) for source in sources] or [published]


def _merge_problem(flow: ChangeFlow, flows: list[ResolvedFlow]) -> str | None:
    first = flows[0]
    if not isinstance(first, ChangeFlow) or not all(isinstance(other, ChangeFlow) for other in flows):
        return "CDC.NOT_ALONE"
    # Compatible feeds: their events have one order and become rows in the same way.
    return None if flow.feed.is_compatible_with(first.feed) else "CDC.OTHER_ROWS"


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
    # A table can also be clustered by a field of a struct.
    z_order = z_order_columns(dataset.properties)
    partitions = {column.casefold() for column in dataset.partition_by}
    for column in z_order:
        if column.casefold() in partitions:
            raise PipelineError(
                "DATASET.Z_ORDER_PARTITION", location=dataset.location, name=dataset.name, column=column
            )
    layout = (*dataset.partition_by, *dataset.cluster_by, *z_order)
    unknown = [c for c in layout if schema.find(c.split(".")[0]) is None]
    if unknown:
        raise PipelineError(
            "DATASET.UNKNOWN_COLUMN",
            location=dataset.location,
            name=dataset.name,
            column=", ".join(f'"{column}"' for column in unknown),
            columns=", ".join(schema.names),
        )


def _without_repeats(problems: tuple[PipelineError, ...]) -> tuple[PipelineError, ...]:
    """The distinct problems: a query may be called several times, and a cycle may be found from several datasets."""
    seen: dict[tuple[str, str, str], PipelineError] = {}
    for problem in problems:
        location = "" if problem.code == "GRAPH.CYCLE" else str(problem.location)
        seen.setdefault((problem.code, problem.message, location), problem)
    # An empty graph may be the result of another problem.
    return tuple(problem for problem in seen.values() if len(seen) == 1 or problem.code != "GRAPH.EMPTY")

"""Resolves queries on empty stand-ins (D16): one call of each query function, no data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import END_AT, START_AT
from headrace.cdc.snapshot_versions import TIME_OF_UPDATE, Taken, type_of
from headrace.errors import PipelineError, Problems, problems_of
from headrace.expectations.check import check
from headrace.graph.resolve import MissingInput
from headrace.graph.resolved import Analysis, Input
from headrace.model.cdc import CompareSnapshots
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.spark.analysis.plans import (
    Reading,
    fingerprint,
    needs_complete_mode,
    plan_identity,
    read_plan,
    without_places,
)
from headrace.spark.analysis.state_operators import stateful_operators
from headrace.spark.cdc.declaration import feed_of, snapshot_feed, target_schema
from headrace.spark.delta.tables import empty_frame, struct_type
from headrace.spark.errors.spark_errors import definition_problem, first_line, user_location
from headrace.spark.queries.query_calls import call
from headrace.spark.queries.snapshots import Snapshot, asked
from headrace.spark.readers.input_file import check_input_file
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.availability import unknown_format
from headrace.spark.update.catalog import Catalog

_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")


class _Identity(NamedTuple):
    """What identifies a query, as it is stored now and as version 0.1 has stored it."""

    now: str
    former: str


class StubAnalyzer:
    """Fills the resolver's port: calls each query on empty tables of the right schema.

    Args:
        catalog: where stand-ins are registered; all of the pipeline's names are known to it.
        definitions: what the files declare.
        root: the project's folder, to find the user's line in a traceback.
        files: the project's Python files; their text is part of the fingerprint of queries that run Python code.
        parameters: a digest that stands for the settings which queries can read.
        taken: what a flow has taken of snapshots.
    """

    def __init__(
        self,
        catalog: Catalog,
        definitions: Definitions,
        root: Path,
        files: Iterable[Path],
        parameters: str,
        taken: Callable[[Flow], Taken],
    ) -> None:
        self._catalog = catalog
        self._datasets = {dataset.name: dataset for dataset in definitions.datasets}
        self._root = root
        self._files = tuple(files)
        self._parameters = parameters
        self._taken = taken
        # Rules and confs of a view act in the queries that read it, and are not part of its plan.
        self._views: dict[QualifiedName, _Identity] = {}

    def declared_schema(self, dataset: Dataset) -> Schema | None:
        """The schema that the user declared for a dataset, if any."""
        declared = dataset.schema
        if declared is None:
            return None
        try:
            parsed: Any = declared if isinstance(declared, DataType) else _parsed(declared, self._catalog)
        except (PySparkException, Py4JJavaError) as error:
            raise PipelineError(
                "DATASET.BAD_SCHEMA",
                location=dataset.location,
                name=dataset.name,
                reason=first_line(str(error)),
            ) from error
        if not isinstance(parsed, StructType):
            raise PipelineError(
                "DATASET.BAD_SCHEMA", location=dataset.location, name=dataset.name, reason="it is not a struct"
            )
        return Schema.from_json(parsed.json())

    def check_sink(self, dataset: Dataset) -> tuple[PipelineError, ...]:
        """What is wrong with the format of a sink: nothing in the session writes it."""
        return () if dataset.sink is None else unknown_format(self._catalog.session, dataset, dataset.sink)

    def analyze(self, flow: Flow) -> Analysis:
        """Call the flow's query once and look at the plan of what it returns."""
        try:
            with with_confs(self._catalog.session, flow.spark_conf):
                if flow.snapshots is not None:
                    return self._analysis_of_snapshots(flow, flow.snapshots)
                frame = call(flow, self._catalog, resolving=True, columns=self._target_columns(flow))
                if flow.changes is None:
                    return self._analysis(flow, frame, None)
                return self._analysis(flow, frame, feed_of(flow, frame, self._before(flow).table))
        except (PipelineError, Problems) as error:
            place = user_location(error, self._root) or flow.location
            found = [problem.located(place) for problem in problems_of(error)]
            raise (Problems(found) if isinstance(error, Problems) else found[0]) from error
        except MissingInput:
            raise
        except AnalysisException as error:
            missing = self._missing(error)
            if missing is not None:
                raise missing from error
            raise definition_problem(flow, error, self._root) from error
        except (Exception, SystemExit) as error:
            raise definition_problem(flow, error, self._root) from error

    def publish(self, dataset: Dataset, schema: Schema, flow: Flow | None) -> None:
        """Make an empty dataset of this schema readable under every spelling of its name."""
        if flow is None:
            self._catalog.register_stub(dataset.name, schema.nullable)
        else:
            with with_confs(self._catalog.session, flow.spark_conf):
                frame = call(flow, self._catalog, resolving=True)
            self._catalog.register_view(dataset.name, frame)

    def check_expectations(self, dataset: Dataset, schema: Schema) -> tuple[PipelineError, ...]:
        """What is wrong with the expectations of a dataset over rows of this schema."""
        return check(dataset, empty_frame(self._catalog.session, schema.nullable)) if dataset.expectations else ()

    def _analysis_of_snapshots(self, flow: Flow, compares: CompareSnapshots) -> Analysis:
        """The analysis of a flow that compares snapshots, by the next one; where there is none, by its table."""
        taken = self._before(flow)
        if not compares.asks:
            frame = call(flow, self._catalog, resolving=True)
            return self._comparing(flow, frame, taken, TIME_OF_UPDATE)
        reads: set[QualifiedName] = set()
        snapshot, due = self._asked(flow, taken, reads)
        known = taken.table or self.declared_schema(self._datasets[flow.target])
        if snapshot is not None:
            frame, kind = snapshot.rows, type_of(snapshot.version)
        elif known is not None:
            begun = known.find(START_AT)
            kind = begun.json_type if begun is not None else TIME_OF_UPDATE
            frame = empty_frame(self._catalog.session, _without_times(known))
        else:
            raise PipelineError("CDC.NO_SNAPSHOT", location=flow.location, flow=flow.name, name=flow.target)
        found = self._comparing(flow, frame, taken, kind)
        # What comes next has other rows, and other columns perhaps, but is not another query.
        identity = self._identity(flow, self._catalog.session.range(0), Reading(python=True))
        inputs = {given.name: given for given in found.inputs}
        inputs |= {name: Input(name, streaming=False) for name in sorted(reads, key=str) if name not in inputs}
        return replace(
            found,
            inputs=tuple(inputs.values()),
            fingerprint=identity.now,
            former_fingerprint=identity.former,
            unrepeatable=due,
        )

    def _before(self, flow: Flow) -> Taken:
        """What there is of the flow's table, unless it is cleared."""
        return Taken() if flow.target in self._catalog.cleared else self._taken(flow)

    def _asked(self, flow: Flow, taken: Taken, reads: set[QualifiedName]) -> tuple[Snapshot | None, str | None]:
        """The next snapshot, and why there is something to do; None when there is nothing.

        Where the table tells the columns, what is wrong with the snapshot is for the flow to say. A function that looks
        at the pipeline's own tables has seen empty stand-ins of them, so that its answer tells nothing.
        """
        try:
            snapshot = asked(flow, self._catalog, taken.version, reads)
        except PipelineError as error:
            if taken.table is None or not error.code.startswith("CDC."):
                raise
            return None, "what its function gives cannot be taken"
        if snapshot is not None:
            return snapshot, f"snapshot {snapshot.version} comes next"
        return None, "its function looks at tables of the pipeline" if reads else None

    def _comparing(self, flow: Flow, snapshot: DataFrame, taken: Taken, kind: str) -> Analysis:
        """The analysis of a snapshot, which is compared by the columns of its table as well."""
        found = self._analysis(flow, snapshot, snapshot_feed(flow, snapshot, kind))
        return replace(found, feed=snapshot_feed(flow, _with_kept(snapshot, taken.table), kind))

    def _analysis(self, flow: Flow, frame: DataFrame, feed: ChangeFeed | None) -> Analysis:
        check_input_file(frame)
        reading = read_plan(frame, self._catalog.names.name_behind)
        streaming = frame.isStreaming
        dataset = self._datasets.get(flow.target)
        identity = self._identity(flow, frame, reading)
        if dataset is not None and dataset.kind.is_view:
            self._views[dataset.name] = identity
        complete = streaming and not (flow.once or flow.updates) and needs_complete_mode(frame)
        schema = Schema.from_json(frame.schema.json()) if feed is None else target_schema(feed)
        keeps_state = streaming and reading.keeps_state
        return Analysis(
            schema=schema.nullable,
            streaming=streaming,
            inputs=reading.as_inputs,
            sources=tuple(reading.sources) if streaming else (),
            external=tuple(reading.external),
            external_tables=() if streaming else tuple(reading.tables),
            complete=complete,
            operators=stateful_operators(frame, complete=complete) if keeps_state else (),
            fingerprint=identity.now,
            former_fingerprint=identity.former,
            unrepeatable=reading.unrepeatable,
            feed=feed,
        )

    def _identity(self, flow: Flow, frame: DataFrame, reading: Reading) -> _Identity:
        """The same as long as a flow does the same with the same inputs."""
        dataset = self._datasets.get(flow.target)
        rules = [f"{e.name} {e.action.value} {e.text}" for e in dataset.expectations] if dataset else []
        rules += _sorted(dataset.column_comments) if dataset else []
        rules += [str(declared) for declared in (flow.changes, flow.snapshots) if declared is not None]
        code = self._code_digest() if reading.python else ""
        beside = (self._parameters, code, *rules, *_sorted(flow.spark_conf))
        views = [self._views.get(name, _Identity("", "")) for name in reading.inputs]
        tables = () if frame.isStreaming else reading.tables
        plan = plan_identity(frame, str(self._catalog.stubs))
        return _Identity(
            fingerprint(without_places(plan), reading, *tables, *beside, *(view.now for view in views)),
            fingerprint(plan, reading, *beside, *(view.former for view in views)),
        )

    def _target_columns(self, flow: Flow) -> tuple[str, ...]:
        dataset = self._datasets.get(flow.target)
        declared = self.declared_schema(dataset) if dataset is not None else None
        return declared.names if declared else ()

    def _missing(self, error: AnalysisException) -> MissingInput | None:
        condition = error.getCondition() or ""
        if not condition.startswith(_MISSING):
            return None
        params = error.getMessageParameters() or {}
        spelled = next((params[key] for key in ("relationName", "identifier", "schemaName") if key in params), "?")
        return MissingInput(self._catalog.names.name_behind(spelled), spelled.replace("`", ""))

    def _code_digest(self) -> str:
        digest = hashlib.sha256()
        for file in self._files:
            digest.update(file.read_bytes())
        return digest.hexdigest()


def _without_times(table: Schema) -> Schema:
    """The columns of a table without those that it has beside its own."""
    return Schema(tuple(column for column in table.columns if column.name not in (START_AT, END_AT)))


def _with_kept(snapshot: DataFrame, table: Schema | None) -> DataFrame:
    """A snapshot with the columns that the table has from earlier ones, as it spells them; those it lacks are NULL."""
    if table is None:
        return snapshot
    fields = {field.name.casefold(): field for field in struct_type(_without_times(table)).fields}
    known = {name.casefold() for name in snapshot.columns}
    own = [fields[name.casefold()].name if name.casefold() in fields else name for name in snapshot.columns]
    gone = [field for name, field in fields.items() if name not in known]
    return snapshot.toDF(*own).withColumns({field.name: F.lit(None).cast(field.dataType) for field in gone})


def _parsed(text: str, catalog: Catalog) -> DataType:
    """A DDL string as a type, through Spark's own parser."""
    java: Any = catalog.session._jvm  # noqa: SLF001 - the parser has no public form
    parsed = java.org.apache.spark.sql.types.StructType.fromDDL(text)
    return StructType.fromJson(json.loads(parsed.json()))


def _sorted(conf: Any) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(conf.items())]

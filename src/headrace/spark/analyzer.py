"""Resolves queries on empty stand-ins (D16): one call of each query function, no data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from headrace.errors import PipelineError, Problems, problems_of
from headrace.expectations.check import check
from headrace.graph.resolve import MissingInput
from headrace.graph.resolved import Analysis
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.spark.catalog import Catalog
from headrace.spark.cdc.feed import feed_of, target_schema
from headrace.spark.delta_tables import empty_frame
from headrace.spark.failures import definition_problem, first_line, user_location
from headrace.spark.input_file import check_input_file
from headrace.spark.plans import fingerprint, needs_complete_mode, read_plan
from headrace.spark.queries import call
from headrace.spark.session import with_confs
from headrace.spark.stateful import stateful_operators

_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")


class StubAnalyzer:
    """Fills the resolver's port: calls each query on empty tables of the right schema.

    Args:
        catalog: where stand-ins are registered; all of the pipeline's names are known to it.
        definitions: what the files declare.
        root: the project's folder, to find the user's line in a traceback.
        files: the project's Python files; their text is part of the fingerprint of queries that run Python code.
        parameters: a digest that stands for the settings which queries can read.
    """

    def __init__(
        self, catalog: Catalog, definitions: Definitions, root: Path, files: Iterable[Path], parameters: str
    ) -> None:
        self._catalog = catalog
        self._datasets = {dataset.name: dataset for dataset in definitions.datasets}
        self._root = root
        self._files = tuple(files)
        self._parameters = parameters
        # Rules and confs of a view act in the queries that read it, and are not part of its plan.
        self._views: dict[QualifiedName, str] = {}

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

    def analyze(self, flow: Flow) -> Analysis:
        """Call the flow's query once and look at the plan of what it returns."""
        try:
            with with_confs(self._catalog.session, flow.spark_conf):
                frame = call(flow, self._catalog, resolving=True, columns=self._target_columns(flow))
                return self._analysis(flow, frame)
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

    def _analysis(self, flow: Flow, frame: DataFrame) -> Analysis:
        check_input_file(frame)
        reading = read_plan(frame, self._catalog.names.name_behind)
        streaming = frame.isStreaming
        dataset = self._datasets.get(flow.target)
        rules = [f"{e.name} {e.action.value} {e.text}" for e in dataset.expectations] if dataset else []
        rules += _sorted(dataset.column_comments) if dataset else []
        rules += [str(flow.changes)] if flow.changes is not None else []
        code = self._code_digest() if reading.python else ""
        views = [self._views.get(name, "") for name in reading.inputs]
        identity = fingerprint(
            frame, reading, str(self._catalog.stubs), self._parameters, code, *rules, *_sorted(flow.spark_conf), *views
        )
        if dataset is not None and dataset.kind.is_view:
            self._views[dataset.name] = identity
        complete = streaming and not flow.once and needs_complete_mode(frame)
        feed = feed_of(flow, frame) if flow.changes is not None else None
        schema = Schema.from_json(frame.schema.json()) if feed is None else target_schema(feed, frame)
        keeps_state = streaming and reading.keeps_state
        return Analysis(
            schema=schema.nullable,
            streaming=streaming,
            inputs=reading.as_inputs,
            sources=tuple(reading.sources) if streaming else (),
            external=tuple(reading.external),
            complete=complete,
            operators=stateful_operators(frame, complete=complete) if keeps_state else (),
            fingerprint=identity,
            unrepeatable=reading.unrepeatable,
            feed=feed,
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


def _parsed(text: str, catalog: Catalog) -> DataType:
    """A DDL string as a type, through Spark's own parser."""
    java: Any = catalog.session._jvm  # noqa: SLF001 - the parser has no public form
    parsed = java.org.apache.spark.sql.types.StructType.fromDDL(text)
    return StructType.fromJson(json.loads(parsed.json()))


def _sorted(conf: Any) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(conf.items())]

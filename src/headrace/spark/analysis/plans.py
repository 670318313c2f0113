"""Reads the analyzed plan of a query through py4j: inputs, sources, state, determinism."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.autoloader.source import Source as LoaderSource
from headrace.cdc.delta_change_feed import FEED_OPTIONS
from headrace.graph.analysis import READER_ENVIRONMENT_KEYS, Input, Source, SourceKind
from headrace.model.column_lineage import ColumnLineage, InputDataset
from headrace.model.dataset_id import DatasetId
from headrace.model.names import QualifiedName
from headrace.sources import kafka_options
from headrace.sources.stream_source import PreparedSource
from headrace.spark.analysis.column_lineage import RELATIONS, column_lineage
from headrace.spark.analysis.leaf_datasets import leaf_datasets
from headrace.spark.analysis.relations import latest_table_path
from headrace.spark.data_sources import cloud_files, python_sources
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.session.guards import unguarded

# Columns of all operators, up to which their lineage is read: about a second. Long chains of withColumn have more.
_MAX_LINEAGE_COLUMNS = 100_000
# Operators that run the user's Python code, whose changes a plan does not show.
_PYTHON_NODES = ("MapInPandas", "MapInArrow", "FlatMapGroupsInPandas", "FlatMapCoGroupsInPandas", "Python", "InArrow")
# Operators that are stateful on a stream; joins are, if both sides are streams.
_STATEFUL_NODES = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "Except",
        "FlatMapGroupsInPandasWithState",
        "GlobalLimit",
        "Intersect",
        "TransformWithStateInPySpark",
    }
)
# An absolute local path, with only wildcards that have the same meaning for Hadoop and Python.
_LOCAL_PATH = re.compile(r"/(?!/)[^{}\[\]\\]*|file:(?://)?/(?!/)[^{}\[\]\\%?#]*")
# File formats for which the listing shows whether there is new data.
_LISTED_FORMATS = frozenset({"csv", "json", "orc", "parquet", "text"})
# Options that make Spark list other files than all below the paths.
_LISTING_OPTIONS = frozenset({"pathglobfilter", "modifiedafter", "modifiedbefore", "latestfirst"})

# Options by which a stream continues over commits that removed or changed rows of its table.
_PASSING_CHANGES = frozenset({"skipchangecommits", "ignorechanges", "ignoredeletes", *FEED_OPTIONS})

# UUIDs, such as that of an EventTimeWatermark, and Java's default text of an object.
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\borg\.apache\.[\w.$]+@[0-9a-f]+")

# The option of an Auto Loader reader that says how buckets are reached, wherever it is among the options.
_STORES = re.compile(rf"{cloud_files.STORES_OPTION}=\*+\(redacted\), |, {cloud_files.STORES_OPTION}=\*+\(redacted\)")

# The start of an Auto Loader reader's text.
_READER = '{"given": '

# A stream with another reader beside it, and the columns of that reader.
_FALLBACK = re.compile(r"(StreamingRelationV2 [^\n]*\], StreamingRelation [\w.]+, \[)([^\]\n]*)")
_COLUMN_ID = re.compile(r"#\d+")

# Definitions of a WITH clause and references to them; Spark numbers them process-wide.
_WITH_CLAUSE = re.compile(r"\b(CTERelation(?:Def|Ref)) (\d+)")


@dataclass
class PlanReading:
    """The findings of a walk over a plan."""

    inputs: dict[QualifiedName, bool] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    external_datasets: list[tuple[str, DatasetId]] = field(default_factory=list)
    # By the number of their first column.
    leaves: dict[int, tuple[InputDataset, ...]] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    keeps_state: bool = False
    rows_in_code: list[str] = field(default_factory=list)
    unrepeatable: str | None = None
    python: bool = False
    columns: ColumnLineage | None = None
    # Their number.
    operators: int = 0

    @property
    def as_inputs(self) -> tuple[Input, ...]:
        """The datasets that the plan reads, in its order."""
        return tuple(Input(name, streaming) for name, streaming in self.inputs.items())


def read_plan(frame: DataFrame, name_behind: Callable[[str], QualifiedName | None]) -> PlanReading:
    """Walk the analyzed plan, including subqueries."""
    found = PlanReading()
    plan = analyzed(frame)
    _walk(plan, found, name_behind)
    patterns: Any = frame.sparkSession._jvm  # noqa: SLF001 - tree patterns have no public form
    tree_pattern = patterns.org.apache.spark.sql.catalyst.trees.TreePattern
    if plan.containsPattern(tree_pattern.CURRENT_LIKE()):
        found.unrepeatable = "uses the current time, date or user"
    elif not plan.deterministic():
        found.unrepeatable = "is not deterministic"
    found.python = found.python or bool(plan.containsPattern(tree_pattern.PYTHON_UDF()))
    if found.operators * len(frame.columns) <= _MAX_LINEAGE_COLUMNS:
        found.columns = column_lineage(frame, found.leaves)
    return found


def analyzed(frame: DataFrame) -> Any:
    """The analyzed logical plan, a Java object."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form in Python


def needs_complete_mode(frame: DataFrame) -> bool:
    """True when a streaming result does not support append mode but supports complete mode.

    Raises:
        AnalysisException: it supports neither; the error is that of append mode.

    Source: Spark's own check before a query starts, ``UnsupportedOperationChecker.checkForStreaming``.
    """
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the check has no public form
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    plan = analyzed(frame)
    try:
        checker.checkForStreaming(plan, modes.Append())
    except AnalysisException as in_append:
        try:
            checker.checkForStreaming(plan, modes.Complete())
        except AnalysisException:
            raise in_append from None
        return True
    return False


def plan_identity(frame: DataFrame, stubs: str) -> str:
    """The text of a query's plan, equal for equal plans in any process.

    Args:
        frame: the query's result.
        stubs: the folder of the empty stand-ins, which differs in each process.
    """
    plan = tree_text(analyzed(frame).canonicalized(), frame.sparkSession).replace(stubs, "")
    # Names of tables are not part of a canonical plan, and ids of watermarks are random. How buckets are reached is no
    # part of a query.
    return _renumbered(_STORES.sub("", _RANDOM_ID.sub("", plan)))


def without_reader_paths(plan: str) -> str:
    """The text of a plan without the machine and storage details of its file readers.

    So a project has the same plans on a machine with more cores, or in another folder.
    """
    parts, position = [], 0
    while (begin := plan.find(_READER, position)) >= 0:
        parts.append(plan[position:begin])
        try:
            reader, position = json.JSONDecoder().raw_decode(plan, begin)
            kept = {key: value for key, value in reader.items() if key not in READER_ENVIRONMENT_KEYS}
            parts.append(json.dumps(kept, sort_keys=True))
        except ValueError:
            # A text in the query that starts in the same way.
            position = begin + len(_READER)
            parts.append(_READER)
    return "".join((*parts, plan[position:]))


def without_ids_of_fallbacks(plan: str) -> str:
    """The text of a plan without the ids of columns that differ each time a source is read.

    Spark keeps another reader beside some streams, such as those of Kafka, and leaves its columns out when it numbers
    columns for a comparison.
    """
    return _FALLBACK.sub(lambda found: found[1] + _COLUMN_ID.sub("#", found[2]), plan)


def fingerprint(plan: str, reading: PlanReading, *extra: str) -> str:
    """Identifies a query: equal for equal plans, different when the plan or *extra* differ.

    Args:
        plan: the text of the plan.
        reading: the findings in the plan.
        extra: what else the result depends on.
    """
    digest = hashlib.sha256(plan.encode())
    names = [f"{name} {streaming}" for name, streaming in reading.inputs.items()]
    for text in (*names, *reading.rows_in_code, *extra):
        digest.update(b"\x00" + text.encode())
    return digest.hexdigest()[:32]


def _renumbered(plan: str) -> str:
    """The text of a plan with WITH clauses renumbered, so that it is the same in any process."""
    numbers: dict[str, int] = {}
    return _WITH_CLAUSE.sub(lambda found: f"{found[1]} {numbers.setdefault(found[2], len(numbers))}", plan)


def tree_text(plan: Any, session: SparkSession) -> str:
    """The text of all nodes with all their fields; by default Spark omits fields after the 25th."""
    key = "spark.sql.debug.maxToStringFields"
    before = session.conf.get(key)
    with unguarded():
        session.conf.set(key, "100000")
        try:
            return str(plan.treeString())
        finally:
            session.conf.set(key, before or "25")


def _walk(node: Any, found: PlanReading, name_behind: Callable[[str], QualifiedName | None]) -> None:
    kind = node_kind(node)
    found.operators += 1
    if kind == "SubqueryAlias" and _read_dataset(node, found, name_behind):
        return
    if kind in _STATEFUL_NODES and node.isStreaming():
        found.keeps_state = True
    if kind == "Join" and node.left().isStreaming() and node.right().isStreaming():
        found.keeps_state = True
    found.python = found.python or any(word in kind for word in _PYTHON_NODES)
    children = list(items(node.children()))
    if not children:
        known = len(found.external)
        _leaf(kind, node, found)
        if found.external[known:]:
            datasets = leaf_datasets(node)
            found.external_datasets += [(found.external[-1], dataset) for dataset in datasets]
            _note_columns(node, datasets, found)
    for child in children:
        _walk(child, found, name_behind)
    for subquery in items(node.subqueries()):
        _walk(subquery, found, name_behind)


def _read_dataset(node: Any, found: PlanReading, name_behind: Callable[[str], QualifiedName | None]) -> bool:
    """Record a dataset of the pipeline under an alias; False if the alias is something else."""
    child = node.child()
    child_kind = node_kind(child)
    if child_kind not in RELATIONS:
        return False
    name = name_behind(str(node.identifier().toString()))
    if name is None:
        return False
    streaming = bool(node.isStreaming())
    found.inputs[name] = found.inputs.get(name, False) or streaming
    _note_columns(node, (str(name),), found)
    if child_kind == "View":
        # The view's inputs are its own, but its sources, state and code count for this flow.
        inner = PlanReading()
        _walk(child, inner, name_behind)
        found.sources += inner.sources
        found.external += inner.external
        found.external_datasets += inner.external_datasets
        found.tables += inner.tables
        found.keeps_state = found.keeps_state or inner.keeps_state
        found.rows_in_code += inner.rows_in_code
        found.python = found.python or inner.python
        found.unrepeatable = found.unrepeatable or inner.unrepeatable
    elif streaming:
        enabled = _enabled_options(child)
        passes, feed = bool(enabled & _PASSING_CHANGES), bool(enabled & set(FEED_OPTIONS))
        found.sources.append(Source(SourceKind.DATASET, str(name), passes, feed))
    return True


def _note_columns(node: Any, datasets: tuple[InputDataset, ...], found: PlanReading) -> None:
    """Note what the columns of a node are read from."""
    columns = node.output()
    if datasets and not columns.isEmpty():
        found.leaves[int(columns.head().exprId().id())] = datasets


def _enabled_options(node: Any) -> set[str]:
    """The options of a stream that are "true", in lower case."""
    options = _options(node.dataSource().options()) if node_kind(node) == "StreamingRelation" else {}
    return {option for option, value in options.items() if value.lower() == "true"}


def _leaf(kind: str, node: Any, found: PlanReading) -> None:
    if kind == "StreamingRelation":
        source = _stream_source(node.dataSource())
        found.sources.append(source)
        found.external.append(source.name)
    elif kind == "StreamingRelationV2" and str(node.sourceName()) == cloud_files.NAME:
        source = _auto_loader(str(node.extraOptions().get(cloud_files.SOURCE_OPTION)))
        found.sources.append(source)
        found.external.append(source.name)
    elif kind == "StreamingRelationV2" and str(node.sourceName()) == "kafka":
        entries = node.extraOptions().asCaseSensitiveMap()
        options = {str(key): str(entries[key]) for key in entries}
        text = kafka_options.describe_topics(options)
        ignored = kafka_options.without_effect(options)
        found.sources.append(Source(SourceKind.OTHER, text, without_effect=ignored))
        found.external.append(text)
    elif kind == "StreamingRelationV2" and str(node.sourceName()).startswith(python_sources.PREFIX):
        prepared = PreparedSource.from_json(str(node.extraOptions().get(python_sources.SOURCE_OPTION)))
        found.sources.append(Source(SourceKind.OTHER, prepared.description, without_effect=prepared.without_effect))
        found.external.append(prepared.description)
    elif kind == "StreamingRelationV2" and str(node.sourceName()) == "socket":
        options = node.extraOptions()
        text = f"socket {options.get('host')}:{options.get('port')}"
        found.sources.append(Source(SourceKind.OTHER, text, lacks_retention=True))
        found.external.append(text)
    elif kind.startswith("StreamingRelation") or kind == "StreamingDataSourceV2Relation":
        text = str(node.simpleString(5)).split("[")[0].strip()
        found.sources.append(Source(SourceKind.OTHER, text))
        found.external.append(text)
    elif kind == "LocalRelation":
        # The rows are not in the plan's text; Spark's hash of them is the same in every process.
        found.rows_in_code.append(str(node.data().hashCode()))
    elif kind == "LogicalRDD":
        found.unrepeatable = "is built from rows in the code"
    elif kind in ("LogicalRelation", "DataSourceV2Relation"):
        _read_at_once(node, found)


def _read_at_once(node: Any, found: PlanReading) -> None:
    """Record a batch input from outside the pipeline; only for Delta tables, changes can be detected."""
    path = latest_table_path(node)
    if path is None:
        found.external.append(_relation_text(node))
        found.unrepeatable = "reads an external source"
    else:
        found.external.append(path)
        found.tables.append(path)


def _relation_text(node: Any) -> str:
    """What a batch reads, for the reader: the format and the paths of files, or what Spark says of it."""
    relation = node.relation() if node_kind(node) == "LogicalRelation" else None
    if relation is None or str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return str(node.simpleString(3)).split("[")[0].strip()
    first, *others = (str(path).removeprefix("file:") for path in items(relation.location().rootPaths()))
    more = f" and {len(others)} more" if others else ""
    return f"{str(relation.fileFormat()).lower()} {first}{more}"


def _stream_source(data_source: Any) -> Source:
    options = _options(data_source.options())
    kind = str(data_source.className()).lower()
    paths = [*items(data_source.paths())] or ([options["path"]] if "path" in options else [])
    listed = bool(paths) and all(can_be_listed(str(path)) for path in paths)
    if kind in _LISTED_FORMATS and listed and not _LISTING_OPTIONS & set(options):
        recursive = options.get("recursivefilelookup", "false").lower() == "true"
        return Source(SourceKind.FILES, json.dumps({"paths": [str(path) for path in paths], "recursive": recursive}))
    return Source(SourceKind.OTHER, f"{kind} {' '.join(map(str, paths))}".strip())


def _auto_loader(text: str) -> Source:
    # The number of tasks that read a batch depends on the machine, and is not part of the source.
    return Source(SourceKind.AUTO_LOADER, replace(LoaderSource.from_json(text), tasks=1).to_json())


def can_be_listed(path: str) -> bool:
    """True for a path or pattern for which Python lists the same files as Spark: local, absolute, ``*`` and ``?``."""
    return _LOCAL_PATH.fullmatch(path) is not None


def _options(scala_map: Any) -> dict[str, str]:
    found = {}
    entries = scala_map.iterator()
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1()).lower()] = str(entry._2())  # noqa: SLF001 - a Scala pair
    return found

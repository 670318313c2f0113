"""New rows of a database table or query as a stream, along a cursor column.

A batch is the rows between the two positions in its offsets. Repeating it gives the same rows, as long as no row up to
its end is changed or added. ``settleDelay`` waits for open transactions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.autoloader.discovery import Clock
from headrace.autoloader.reading.conversion.arrow_types import NoArrowType, arrow_schema
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType
from headrace.options.nearest import nearest
from headrace.options.option import Kind, Option, OptionTable, accepted, refused
from headrace.options.parse import ParsedOptions, parse_options
from headrace.sources.jdbc_columns import JdbcColumn
from headrace.sources.jdbc_connection import UNREACHABLE, Database, database_of
from headrace.sources.jdbc_reading import (
    JdbcReader,
    Position,
    Range,
    Relation,
    describes_queries,
    position_value,
    primary_key,
    read_columns,
    value_of,
)
from headrace.sources.stream_source import Offset, PreparedSource, ReadContext

if TYPE_CHECKING:
    import sqlalchemy as sa

FORMAT_NAME = "jdbc_incremental"
# Its name matches spark.redaction.regex, so that Spark hides it wherever it shows options.
URL_SECRET = "headrace.secretUrl"  # noqa: S105 - the name of an option
# The setting of a reader whose database did not answer, so that only its columns are known: the error's parameters.
_UNREACHABLE_SETTING = "away"
_EARLIEST, _LATEST = "earliest", "latest"
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_RANGES = "A batch is divided by ranges of cursorColumn"

FORMAT = OptionTable(
    FORMAT_NAME,
    (
        Option("url", Kind.SECRET, "`jdbc:postgresql://host:5432/db`, or a SQLAlchemy URL", required=True),
        Option("user", Kind.TEXT, "Database user. Overrides the URL"),
        Option("password", Kind.SECRET, "Password of the user. Overrides the URL"),
        Option(
            "dbtable",
            Kind.TEXT,
            "Table, as `table` or `schema.table`, in the case in which it is stored. Set `dbtable` or `query`",
        ),
        Option("query", Kind.TEXT, "SELECT statement to read instead of a table. Runs unchanged"),
        Option("cursorColumn", Kind.TEXT, "Column whose value is greater in each new row", required=True),
        Option(
            "tieBreakColumn",
            Kind.TEXT,
            "Column that orders rows with equal `cursorColumn`. Its values must be unique among them",
            "the primary key, if it has one column",
        ),
        Option(
            "startingPosition",
            Kind.TEXT,
            "`earliest`, `latest`, or a value of `cursorColumn`; the stream starts after it",
            _EARLIEST,
        ),
        Option(
            "maxRowsPerTrigger",
            Kind.POSITIVE_INTEGER,
            "Maximum number of rows per batch. Without a tie-break, rows with an equal `cursorColumn` are added",
            "1000000",
        ),
        Option("numPartitions", Kind.POSITIVE_INTEGER, "Number of parallel tasks, each with its own connection", "1"),
        Option(
            "settleDelay",
            Kind.INTERVAL,
            "How long to wait for transactions that commit late, before a row is read",
            "0 s",
        ),
        Option("fetchsize", Kind.POSITIVE_INTEGER, "Rows per fetch", "10000"),
        Option("preferTimestampNTZ", Kind.BOOLEAN, "Read times without a zone as TIMESTAMP_NTZ", "false"),
        accepted("driver", "It names a Java class; the URL chooses the Python driver"),
        accepted("pushDownPredicate", "A batch always reads its whole range"),
        *(refused(n, _RANGES, "Use numPartitions alone") for n in ("partitionColumn", "lowerBound", "upperBound")),
        refused("customSchema", "The schema of the reader sets the columns", "Use .schema(...)"),
        refused("sessionInitStatement", "Only the statements that read are run", "Set it for the database's user"),
        refused("prepareQuery", "Only the statements that read are run", "Put WITH into query"),
        refused("queryTimeout", "The timeout is a setting of the database", "Set it for the database's user"),
        refused("keytab", "Kerberos is not supported", "Use user and password, or the driver's environment"),
        refused("principal", "Kerberos is not supported", "Use user and password, or the driver's environment"),
    ),
)


@dataclass(frozen=True)
class JdbcSource:
    """A ``jdbc_incremental`` source."""

    reader: JdbcReader
    start: Any
    max_rows: int
    partitions: int
    settle_s: float

    @staticmethod
    def of(prepared: PreparedSource) -> JdbcSource:
        """The source of a prepared reader, whose secrets hold the URL.

        Raises:
            PipelineError: ``JDBC.UNREACHABLE``: the database did not answer when the reader was prepared.
        """
        if _UNREACHABLE_SETTING in prepared.settings:
            raise PipelineError(UNREACHABLE, **prepared.settings[_UNREACHABLE_SETTING])
        document = dict(prepared.settings)
        columns, keys = (tuple(JdbcColumn(**column) for column in document.pop(name)) for name in ("columns", "keys"))
        fields = {name: document.pop(name) for name in ("start", "max_rows", "partitions", "settle_s")}
        relation = Relation(**document.pop("relation"))
        url = next(value for name, value in prepared.secrets.items() if name.casefold() == URL_SECRET.casefold())
        return JdbcSource(JdbcReader(Database(url), relation, columns, keys, **document), **fields)

    def stream(self, clock: Clock) -> JdbcStream:
        """A stream of the rows."""
        return JdbcStream(self, clock)

    def batch(self, clock: Clock) -> Sequence[Range]:
        """Ranges of all available rows."""
        stream = JdbcStream(self, clock)
        try:
            start = stream.initial()
            return stream.tasks(start, stream.latest(start, everything=True))
        finally:
            stream.close()

    def rows(self, task: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        engine = self.reader.database.engine()
        try:
            yield from self.reader.rows(engine, task)
        finally:
            engine.dispose()


class JdbcStream:
    """The batches of one query. An offset holds the position of the last row read, and the start of the stream."""

    def __init__(self, source: JdbcSource, clock: Clock) -> None:
        self._source = source
        self._reader = source.reader
        self._clock = clock
        self._engine: sa.Engine = source.reader.database.engine()
        # The last positions that were seen, each with its time, until they have settled.
        self._seen: list[tuple[int, Position]] = []
        self._settled: Position | None = None
        # A triggered query ends at the last row that was available at its start.
        self._is_available_now = False
        self._has_available_end = False
        self._newest: Offset | None = None

    def initial(self) -> Offset:
        """The start position that the options set."""
        start = self._source.start
        if start == _LATEST:
            start = self._reader.to_json(self._reader.last_position(self._engine))
        elif start == _EARLIEST:
            start = None
        return {"after": start, "begin": start}

    def prepare_for_available_now(self) -> None:
        """End the stream at the rows available at the next batch, which waits until they have settled."""
        self._is_available_now, self._has_available_end = True, False

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch that starts at *start*."""
        after = self._reader.from_json(start["after"])
        if not self._has_available_end:
            self._update_settled()
            self._has_available_end = self._is_available_now
        if self._seen or self._settled:
            newest = self._seen[-1][1] if self._seen else self._settled
            self._newest = {**start, "after": self._reader.to_json(newest)}
        if self._settled is None:
            return start
        within = Range(after, self._settled)
        end = None
        if not everything:
            end = self._reader.position_after(self._engine, within, self._source.max_rows)
        if end is None:
            # The range may be empty.
            if self._reader.first_position(self._engine, within) is None:
                return start
            end = self._settled
        return {**start, "after": self._reader.to_json(end)}

    def newest(self) -> Offset | None:
        """The last position that was seen."""
        return self._newest

    def tasks(self, start: Offset, end: Offset) -> Sequence[Range]:
        """Ranges between the two positions."""
        # The first batch may be repeated before its start is stored, and the last row may be another one by then.
        start_position = end["begin"] if start["after"] == start["begin"] else start["after"]
        after, up_to = self._reader.from_json(start_position), self._reader.from_json(end["after"])
        if up_to is None or after == up_to:
            return []
        return self._reader.split(self._engine, Range(after, up_to), self._source.partitions)

    def commit(self, end: Offset) -> None:
        """Do nothing: the database keeps its rows."""

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _update_settled(self) -> None:
        """Update the settled position: the last position of ``settleDelay`` ago."""
        delay_s = self._source.settle_s
        newest = self._reader.last_position(self._engine)
        if newest is not None:
            self._seen.append((self._clock.now_ns(), newest))
        if self._is_available_now and newest is not None and newest != self._settled:
            self._clock.sleep_s(delay_s)
        before_ns = self._clock.now_ns() - int(delay_s * 1e9)
        while self._seen and self._seen[0][0] <= before_ns:
            self._settled = self._seen.pop(0)[1]


def prepare_jdbc(given: Mapping[str, Any], schema: JsonType | None, context: ReadContext) -> PreparedSource:
    """Prepare a reader; reads the columns from the database.

    Raises:
        Problems: options that are wrong.
        PipelineError: ``JDBC.*``, ``SOURCE.PACKAGE_MISSING``.
    """
    parsed = parse_options(FORMAT, given, time_zone=context.time_zone)
    relation = _relation(parsed)
    parsed.check()
    database = database_of(parsed.get("url"), parsed.get("user"), parsed.get("password"), FORMAT_NAME)
    if relation.query is not None:
        relation = Relation(query=database.escape_for_driver(relation.query))
    engine = database.engine()
    try:
        database_columns = _read_database_columns(parsed, schema, database, engine, relation)
        columns = _columns(schema, database_columns, relation)
        cursor = _key(parsed, "cursorColumn", database_columns or columns, relation)
        tie_break = _tie_break(parsed, database_columns or columns, cursor, (database, engine, relation))
    except PipelineError as error:
        if error.code != UNREACHABLE or schema is None or not context.schema_only:
            raise
        # The schema is known. The stream connects again when it starts.
        return PreparedSource(
            FORMAT.name, _description(relation, database), schema, {_UNREACHABLE_SETTING: error.params}
        )
    finally:
        engine.dispose()
    start = _start(parsed, cursor)
    parsed.check()
    reader = JdbcReader(
        database=database,
        relation=relation,
        columns=tuple(columns),
        keys=(cursor,) if tie_break is None else (cursor, tie_break),
        fetch_rows=parsed.get("fetchsize", 10_000),
        zone=context.time_zone,
    )
    settings = {
        "relation": asdict(relation),
        **{name: [asdict(column) for column in getattr(reader, name)] for name in ("columns", "keys")},
        **{name: getattr(reader, name) for name in ("fetch_rows", "zone")},
        "start": start,
        "max_rows": parsed.get("maxRowsPerTrigger", 1_000_000),
        "partitions": parsed.get("numPartitions", 1),
        "settle_s": parsed.get("settleDelay", 0.0),
    }
    return PreparedSource(
        FORMAT.name,
        _description(relation, database),
        reader.schema_json,
        settings,
        {URL_SECRET: database.url},
        parsed.without_effect(),
    )


def _description(relation: Relation, database: Database) -> str:
    return f"{relation.description} of {database.description}"


def _relation(parsed: ParsedOptions) -> Relation:
    table, query = parsed.get("dbtable"), parsed.get("query")
    if (table is None) == (query is None):
        parsed.add_problem("SOURCE.OPTION_MISSING", option="dbtable", about="Set either dbtable or query")
        return Relation()
    if query is not None:
        return Relation(query=query.strip().rstrip(";"))
    parts = [quoted.replace('""', '"') or plain for quoted, plain in _NAME.findall(table.strip())]
    if table.strip().startswith("(") or not 1 <= len(parts) <= 2:
        parsed.reject("dbtable", 'it is a table, or schema.table; a SELECT is given as "query"')
        return Relation()
    return Relation(table=parts[-1], schema=parts[0] if len(parts) == 2 else None)


def _read_database_columns(
    parsed: ParsedOptions, schema: JsonType | None, database: Database, engine: Any, relation: Relation
) -> list[JdbcColumn]:
    """The columns in the database; empty if the database does not describe them, which requires a schema."""
    if schema is None:
        ntz = parsed.get("preferTimestampNTZ", False)
    elif relation.query is not None and not describes_queries(database):
        return []
    else:
        # A time that is read with a zone may have none in the database.
        ntz = True
    available = read_columns(database, engine, relation, ntz=ntz)
    unknown = next((name for name, column in available.items() if column is None), None)
    if unknown is not None and schema is None:
        raise PipelineError("JDBC.COLUMN_TYPE", column=unknown, relation=relation.description)
    return [column or JdbcColumn(name, "string", as_text=True) for name, column in available.items()]


def _columns(schema: JsonType | None, database_columns: Sequence[JdbcColumn], relation: Relation) -> list[JdbcColumn]:
    if schema is None:
        return list(database_columns)
    try:
        arrow_schema(schema)
    except NoArrowType as error:
        raise PipelineError("SOURCE.SCHEMA", format=FORMAT.name, reason=str(error)) from None
    available = {column.name: column for column in database_columns}
    columns = []
    for field in schema["fields"]:
        stored = available.get(field["name"])
        if database_columns and stored is None:
            raise _column_missing(field["name"], database_columns, relation)
        as_text = field["type"] == "string" and (stored is None or stored.kind != "string" or stored.as_text)
        naive = field["type"] == "timestamp_ntz" if stored is None else stored.naive
        columns.append(JdbcColumn(field["name"], field["type"], as_text=as_text, naive=naive))
    return columns


def _column_missing(name: str, columns: Sequence[JdbcColumn], relation: Relation) -> PipelineError:
    near = nearest(name, [column.name for column in columns]) or "none"
    return PipelineError("JDBC.COLUMN_MISSING", column=name, relation=relation.description, near=near)


def _key(parsed: ParsedOptions, option: str, columns: Sequence[JdbcColumn], relation: Relation) -> JdbcColumn:
    name = parsed.get(option)
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        raise _column_missing(name, columns, relation)
    if not column.is_orderable:
        parsed.reject(option, "a column of its type cannot order rows")
    return column


def _tie_break(
    parsed: ParsedOptions, columns: Sequence[JdbcColumn], cursor: JdbcColumn, source: tuple[Database, Any, Relation]
) -> JdbcColumn | None:
    if "tieBreakColumn" in parsed.values:
        return _key(parsed, "tieBreakColumn", columns, source[2])
    keys = primary_key(*source)
    if len(keys) != 1 or keys[0] == cursor.name:
        return None
    return next((column for column in columns if column.name == keys[0] and column.is_orderable), None)


def _start(parsed: ParsedOptions, cursor: JdbcColumn) -> Any:
    text = parsed.get("startingPosition", _EARLIEST).strip()
    if text.casefold() in (_EARLIEST, _LATEST):
        return text.casefold()
    try:
        value = value_of(cursor, text)
    except (ValueError, ArithmeticError) as error:
        parsed.reject("startingPosition", f"{error}, and it is neither {_EARLIEST} nor {_LATEST}")
        return _EARLIEST
    return [position_value(value)]

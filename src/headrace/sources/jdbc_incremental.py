"""A table or query of a database as a stream of its new rows, along a column that grows.

A batch is the rows between two positions, which are in its offset: the same rows whenever it is made, as long as none
up to its end is changed or added. ``settleDelay`` waits for transactions that are still under way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.discovery import Clock
from headrace.autoloader.reading.arrow_types import NoArrowType, arrow_schema
from headrace.errors import PipelineError
from headrace.settings.check import nearest
from headrace.sources.jdbc_columns import JdbcColumn
from headrace.sources.jdbc_connection import UNREACHABLE, Database, database_of
from headrace.sources.jdbc_reading import (
    JdbcReading,
    Position,
    Range,
    Relation,
    describes_queries,
    kept,
    primary_key,
    reflected,
    value_of,
)
from headrace.sources.option_reading import (
    GivenOptions,
    Kind,
    SourceFormat,
    SourceOption,
    accepted,
    read_options,
    refused,
)
from headrace.sources.stream_source import Offset, Prepared, Session

if TYPE_CHECKING:
    import sqlalchemy as sa

FORMAT_NAME = "jdbc_incremental"
# Its name matches spark.redaction.regex, so that Spark hides it wherever it shows options.
URL_SECRET = "headrace.secretUrl"  # noqa: S105 - the name of an option
# Of a reader of which the columns alone are known, because the database did not answer: what was said.
_AWAY = "away"
_EARLIEST, _LATEST = "earliest", "latest"
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_RANGES = "A batch is divided by ranges of cursorColumn"

FORMAT = SourceFormat(
    FORMAT_NAME,
    (
        SourceOption("url", Kind.SECRET, "`jdbc:postgresql://host:5432/db`, or a SQLAlchemy URL", required=True),
        SourceOption("user", Kind.TEXT, "Database user. Overrides the URL"),
        SourceOption("password", Kind.SECRET, "Password of the user. Overrides the URL"),
        SourceOption(
            "dbtable",
            Kind.TEXT,
            "Table, as `table` or `schema.table`, in the case in which it is stored. Set `dbtable` or `query`",
        ),
        SourceOption("query", Kind.TEXT, "SELECT statement to read instead of a table. Runs unchanged"),
        SourceOption("cursorColumn", Kind.TEXT, "Column whose value is greater in each new row", required=True),
        SourceOption(
            "tieBreakColumn",
            Kind.TEXT,
            "Column that orders rows with equal `cursorColumn`. Its values must be unique among them",
            "the primary key, if it has one column",
        ),
        SourceOption(
            "startingPosition",
            Kind.TEXT,
            "`earliest`, `latest`, or a value of `cursorColumn`; the stream starts after it",
            _EARLIEST,
        ),
        SourceOption(
            "maxRowsPerTrigger",
            Kind.COUNT,
            "Maximum number of rows per batch. Without a tie-break, rows with an equal `cursorColumn` are added",
            "1000000",
        ),
        SourceOption("numPartitions", Kind.COUNT, "Number of parallel tasks, each with its own connection", "1"),
        SourceOption(
            "settleDelay",
            Kind.INTERVAL,
            "How long to wait for transactions that commit late, before a row is read",
            "0 s",
        ),
        SourceOption("fetchsize", Kind.COUNT, "Rows per fetch", "10000"),
        SourceOption("preferTimestampNTZ", Kind.SWITCH, "Read times without a zone as TIMESTAMP_NTZ", "false"),
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
    """What a ``jdbc_incremental`` reader means."""

    reading: JdbcReading
    start: Any
    max_rows: int
    partitions: int
    settle_s: float

    @staticmethod
    def of(prepared: Prepared) -> JdbcSource:
        """The source of a reader; the URL comes beside it.

        Raises:
            PipelineError: ``JDBC.UNREACHABLE``: so it was when the reader was prepared.
        """
        if _AWAY in prepared.settings:
            raise PipelineError(UNREACHABLE, **prepared.settings[_AWAY])
        document = dict(prepared.settings)
        columns, keys = (tuple(JdbcColumn(**column) for column in document.pop(name)) for name in ("columns", "keys"))
        own = {name: document.pop(name) for name in ("start", "max_rows", "partitions", "settle_s")}
        relation = Relation(**document.pop("relation"))
        url = next(value for name, value in prepared.secrets.items() if name.casefold() == URL_SECRET.casefold())
        return JdbcSource(JdbcReading(Database(url), relation, columns, keys, **document), **own)

    def stream(self, clock: Clock) -> JdbcStream:
        """A stream of the rows."""
        return JdbcStream(self, clock)

    def batch(self, clock: Clock) -> Sequence[Range]:
        """Ranges of all rows that are there."""
        stream = JdbcStream(self, clock)
        try:
            start = stream.initial()
            return stream.tasks(start, stream.latest(start, everything=True))
        finally:
            stream.close()

    def rows(self, task: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        engine = self.reading.database.engine()
        try:
            yield from self.reading.rows(engine, task)
        finally:
            engine.dispose()


class JdbcStream:
    """The batches of one query. An offset is the position of the last row that was read, and where the stream began."""

    def __init__(self, source: JdbcSource, clock: Clock) -> None:
        self._source = source
        self._reading = source.reading
        self._clock = clock
        self._engine: sa.Engine = source.reading.database.engine()
        # What was newest at which time, until it has settled.
        self._seen: list[tuple[int, Position]] = []
        self._settled: Position | None = None
        # Of a triggered query: it ends at what was there at its start.
        self._ends = False
        self._ended = False
        self._newest: Offset | None = None

    def initial(self) -> Offset:
        """Where the options say."""
        start = self._source.start
        if start == _LATEST:
            start = self._reading.to_json(self._reading.newest(self._engine))
        elif start == _EARLIEST:
            start = None
        return {"after": start, "begin": start}

    def end_at_what_is_there(self) -> None:
        """Let what is there at the next batch be all; waits until that has settled."""
        self._ends, self._ended = True, False

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch behind *start*."""
        after = self._reading.from_json(start["after"])
        if not self._ended:
            self._look()
            self._ended = self._ends
        if self._seen or self._settled:
            newest = self._seen[-1][1] if self._seen else self._settled
            self._newest = {**start, "after": self._reading.to_json(newest)}
        if self._settled is None:
            return start
        within = Range(after, self._settled)
        end = None
        if not everything:
            end = self._reading.position_after(self._engine, within, self._source.max_rows)
        if end is None:
            # Nothing between the two, unless a first row says otherwise.
            if self._reading.oldest(self._engine, within) is None:
                return start
            end = self._settled
        return {**start, "after": self._reading.to_json(end)}

    def newest(self) -> Offset | None:
        """The newest position that was seen."""
        return self._newest

    def tasks(self, start: Offset, end: Offset) -> Sequence[Range]:
        """Ranges between the two positions."""
        # Before the first batch nothing was stored; when that is made again, another row may be the newest.
        behind = end["begin"] if start["after"] == start["begin"] else start["after"]
        after, upto = self._reading.from_json(behind), self._reading.from_json(end["after"])
        if upto is None or after == upto:
            return []
        return self._reading.parts(self._engine, Range(after, upto), self._source.partitions)

    def committed(self, end: Offset) -> None:
        """Nothing to do: the database keeps its rows."""

    def close(self) -> None:
        """Let go of connections."""
        self._engine.dispose()

    def _look(self) -> None:
        """Find out how far rows have settled: up to what was newest a while ago."""
        delay_s = self._source.settle_s
        newest = self._reading.newest(self._engine)
        if newest is not None:
            self._seen.append((self._clock.now_ns(), newest))
        if self._ends and newest is not None and newest != self._settled:
            self._clock.sleep_s(delay_s)
        before_ns = self._clock.now_ns() - int(delay_s * 1e9)
        while self._seen and self._seen[0][0] <= before_ns:
            self._settled = self._seen.pop(0)[1]


def prepare_jdbc(given: Mapping[str, Any], schema: JsonType | None, session: Session) -> Prepared:
    """What a reader means; asks the database for its columns.

    Raises:
        Problems: options that are wrong.
        PipelineError: ``JDBC.*``, ``SOURCE.PACKAGE_MISSING``.
    """
    found = read_options(FORMAT, given, time_zone=session.time_zone)
    relation = _relation(found)
    found.check()
    database = database_of(found.get("url"), found.get("user"), found.get("password"), FORMAT_NAME)
    if relation.query is not None:
        relation = Relation(query=database.as_taken(relation.query))
    engine = database.engine()
    try:
        known = _known(found, schema, database, engine, relation)
        columns = _columns(schema, known, relation)
        cursor = _key(found, "cursorColumn", known or columns, relation)
        tie_break = _tie_break(found, known or columns, cursor, (database, engine, relation))
    except PipelineError as error:
        if error.code != UNREACHABLE or schema is None or not session.resolves:
            raise
        # The columns are known, and the stream asks again when it starts.
        return Prepared(FORMAT.name, _description(relation, database), schema, {_AWAY: error.params})
    finally:
        engine.dispose()
    start = _start(found, cursor)
    found.check()
    reading = JdbcReading(
        database=database,
        relation=relation,
        columns=tuple(columns),
        keys=(cursor,) if tie_break is None else (cursor, tie_break),
        fetch_rows=found.get("fetchsize", 10_000),
        zone=session.time_zone,
    )
    settings = {
        "relation": asdict(relation),
        **{name: [asdict(column) for column in getattr(reading, name)] for name in ("columns", "keys")},
        **{name: getattr(reading, name) for name in ("fetch_rows", "zone")},
        "start": start,
        "max_rows": found.get("maxRowsPerTrigger", 1_000_000),
        "partitions": found.get("numPartitions", 1),
        "settle_s": found.get("settleDelay", 0.0),
    }
    return Prepared(
        FORMAT.name,
        _description(relation, database),
        reading.struct,
        settings,
        {URL_SECRET: database.url},
        found.without_effect(),
    )


def _description(relation: Relation, database: Database) -> str:
    return f"{relation.description} of {database.description}"


def _relation(found: GivenOptions) -> Relation:
    table, query = found.get("dbtable"), found.get("query")
    if (table is None) == (query is None):
        found.problem("SOURCE.OPTION_MISSING", option="dbtable", about="Set either dbtable or query")
        return Relation()
    if query is not None:
        return Relation(query=query.strip().rstrip(";"))
    parts = [quoted.replace('""', '"') or plain for quoted, plain in _NAME.findall(table.strip())]
    if table.strip().startswith("(") or not 1 <= len(parts) <= 2:
        found.wrong("dbtable", 'it is a table, or schema.table; a SELECT is given as "query"')
        return Relation()
    return Relation(table=parts[-1], schema=parts[0] if len(parts) == 2 else None)


def _known(
    found: GivenOptions, schema: JsonType | None, database: Database, engine: Any, relation: Relation
) -> list[JdbcColumn]:
    """The columns as the database has them; none where it does not say, which needs a schema."""
    if schema is None:
        ntz = found.get("preferTimestampNTZ", False)
    elif relation.query is not None and not describes_queries(database):
        return []
    else:
        # What is read as a time with a zone may have none there.
        ntz = True
    there = reflected(database, engine, relation, ntz=ntz)
    unknown = next((name for name, column in there.items() if column is None), None)
    if unknown is not None and schema is None:
        raise PipelineError("JDBC.COLUMN_TYPE", column=unknown, relation=relation.description)
    return [column or JdbcColumn(name, "string", as_text=True) for name, column in there.items()]


def _columns(schema: JsonType | None, known: Sequence[JdbcColumn], relation: Relation) -> list[JdbcColumn]:
    if schema is None:
        return list(known)
    try:
        arrow_schema(schema)
    except NoArrowType as error:
        raise PipelineError("SOURCE.SCHEMA", format=FORMAT.name, reason=str(error)) from None
    there = {column.name: column for column in known}
    columns = []
    for field in schema["fields"]:
        own = there.get(field["name"])
        if known and own is None:
            raise _missing(field["name"], known, relation)
        as_text = field["type"] == "string" and (own is None or own.kind != "string" or own.as_text)
        naive = field["type"] == "timestamp_ntz" if own is None else own.naive
        columns.append(JdbcColumn(field["name"], field["type"], as_text=as_text, naive=naive))
    return columns


def _missing(name: str, columns: Sequence[JdbcColumn], relation: Relation) -> PipelineError:
    near = nearest(name, [column.name for column in columns]) or "none"
    return PipelineError("JDBC.COLUMN_MISSING", column=name, relation=relation.description, near=near)


def _key(found: GivenOptions, option: str, columns: Sequence[JdbcColumn], relation: Relation) -> JdbcColumn:
    name = found.get(option)
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        raise _missing(name, columns, relation)
    if not column.ordered:
        found.wrong(option, "a column of its type cannot order rows")
    return column


def _tie_break(
    found: GivenOptions, columns: Sequence[JdbcColumn], cursor: JdbcColumn, reading: tuple[Database, Any, Relation]
) -> JdbcColumn | None:
    if "tieBreakColumn" in found.values:
        return _key(found, "tieBreakColumn", columns, reading[2])
    keys = primary_key(*reading)
    if len(keys) != 1 or keys[0] == cursor.name:
        return None
    return next((column for column in columns if column.name == keys[0] and column.ordered), None)


def _start(found: GivenOptions, cursor: JdbcColumn) -> Any:
    text = found.get("startingPosition", _EARLIEST).strip()
    if text.casefold() in (_EARLIEST, _LATEST):
        return text.casefold()
    try:
        value = value_of(cursor, text)
    except (ValueError, ArithmeticError) as error:
        found.wrong("startingPosition", f"{error}, and it is neither {_EARLIEST} nor {_LATEST}")
        return _EARLIEST
    return [kept(value)]

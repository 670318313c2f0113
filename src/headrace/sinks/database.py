"""A table of a database that rows are written to in batches, each of them once.

Workers put the rows of a batch into a table beside it. One transaction then takes them over, and notes the batch in a
table of commits: it is in the table whole or not at all, and a batch that is noted is not taken again. The note is
written first, under a lock of its row, so that of two updates that deliver the same batch one has to wait, and finds it
noted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.errors import PipelineError
from headrace.model.failing_rows import MOST_OF_A_BATCH
from headrace.model.names import split_name
from headrace.sinks.commit_notes import Note
from headrace.sinks.refusals import RefusedRow
from headrace.sources.jdbc_connection import Database

if TYPE_CHECKING:
    import sqlalchemy as sa

WRITE_FAILED = "JDBC.WRITE"
# Databases whose way of replacing rows by key was run here.
UPSERTS = ("postgresql", "sqlite")
# Drivers number the values of a statement with 15 bits.
_MOST_VALUES = 30_000
_PART, _TRY, _ROW = "headrace_part", "headrace_try", "headrace_row"
# A column of rows for what they are as a whole, as JSON; it is in no table of the user's.
WHOLE = "headrace_whole"
# SQLSTATE classes of what is wrong with a row: its data, or that a constraint forbids it.
_CLASSES_OF_ROWS = ("22", "23")
_DIGEST_LENGTH = 16
# The column of a digest of where a batch ended.
_POSITIONS, _POSITIONS_LENGTH = "positions", 64


@dataclass(frozen=True)
class Staged:
    """What a task has put beside the table: its partition, the try that did it, and how many rows it has."""

    part: int
    attempt: str
    rows: int


@dataclass(frozen=True)
class Commits:
    """The table in which batches are noted.

    Attributes:
        database: where it is.
        name: of the table.
        schema: in which it is; None for the user's own.
        transaction: whose batches.
    """

    database: Database
    name: str
    schema: str | None
    transaction: str

    def last_batch(self, engine: sa.Engine) -> tuple[Note, int]:
        """The last batch that is noted, and how many rows it had."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        self._make(engine)
        with self.database.connected(engine, WRITE_FAILED) as connection, connection.begin():
            commits = self._table()
            columns = (commits.c.batch, commits.c.positions, commits.c.row_count)
            found = connection.execute(sa.select(*columns).where(commits.c.flow == self.transaction)).first()
        return (Note(), 0) if found is None else (Note(int(found[0]), str(found[1] or "")), int(found[2]))

    def claimed(self, connection: sa.Connection, note: Note, rows: int, now: datetime) -> bool:
        """Note a batch; False when it is noted already.

        Raises:
            PipelineError: SINK.OTHER_BATCH: a later one is, or one that ended elsewhere.
        """
        commits = self._table()
        mine = commits.c.flow == self.transaction
        said = {"batch": note.batch, "positions": note.positions, "row_count": rows, "committed_at": now}
        moved = connection.execute(commits.update().where(mine, commits.c.batch < note.batch).values(**said))
        if moved.rowcount:
            return True
        found = connection.execute(commits.select().where(mine)).mappings().first()
        if found is not None:
            noted = Note(int(found["batch"]), str(found["positions"] or ""))
            return not noted.has(note.batch, note.positions, self.database.description)
        connection.execute(commits.insert().values(flow=self.transaction, **said))
        return True

    def _make(self, engine: sa.Engine) -> None:
        """Make the table where it is not there, and bring one of an earlier version to what it is now.

        Another sink may do so at the same time.
        """
        try:
            with self.database.connected(engine, WRITE_FAILED) as connection, connection.begin():
                self._table().create(connection, checkfirst=True)
                if not self._has_positions(connection):
                    connection.execute(self._add_positions())
        except PipelineError as error:
            if error.code != WRITE_FAILED or not self._is_there(engine):
                raise

    def _has_positions(self, connection: sa.Connection) -> bool:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        columns = sa.inspect(connection).get_columns(self.name, self.schema)
        return any(column["name"].casefold() == _POSITIONS for column in columns)

    def _add_positions(self) -> Any:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        # Every database that has ALTER TABLE takes it so, without the word COLUMN.
        made: Any = sa.DDL
        return made(f"ALTER TABLE %(fullname)s ADD {_POSITIONS} VARCHAR({_POSITIONS_LENGTH})").against(self._table())

    def _is_there(self, engine: sa.Engine) -> bool:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        with self.database.connected(engine, WRITE_FAILED) as connection:
            there = sa.inspect(connection).has_table(self.name, self.schema)
            return bool(there and self._has_positions(connection))

    def _table(self) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        return sa.Table(
            self.name,
            sa.MetaData(),
            sa.Column("flow", sa.String(500), primary_key=True),
            sa.Column("batch", sa.BigInteger, nullable=False),
            sa.Column(_POSITIONS, sa.String(_POSITIONS_LENGTH)),
            sa.Column("row_count", sa.BigInteger, nullable=False),
            sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
            schema=self.schema,
        )


@dataclass(frozen=True)
class TableWriter:
    """One table of a database as a flow writes it.

    Attributes:
        database: where it is.
        table: its name, with its schema in front unless that is the user's own.
        commits: the name of the table in which batches are noted, in the schema of the table.
        transaction: what is delivered, by a name that nothing else in the world has.
        keys: columns by which rows are replaced; none where they are added.
        sequence_by: a row replaces one whose value of this column is not greater; None where it always does.
        rows_per_statement: rows that one statement brings.
    """

    database: Database
    table: str
    commits: str
    transaction: str
    keys: tuple[str, ...] = ()
    sequence_by: str | None = None
    rows_per_statement: int = 1000

    @contextmanager
    def connected(self) -> Any:
        """An engine whose connections end with the block."""
        engine = self.database.engine()
        try:
            yield engine
        finally:
            engine.dispose()

    def last_batch(self, engine: sa.Engine) -> tuple[Note, int]:
        """The last batch that is in the table, and how many rows it had."""
        return self._commits.last_batch(engine)

    def make_stage(self, engine: sa.Engine, columns: Mapping[str, Any]) -> dict[str, str]:
        """An empty table beside the table, which is made if it is not there; the names of its columns by those given.

        Args:
            engine: from :meth:`connected`.
            columns: what the rows have, each with the type for a new table.

        Raises:
            PipelineError: SINK.JDBC_COLUMN: the table has no such column.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        with self.database.connected(engine, WRITE_FAILED) as connection, connection.begin():
            if not sa.inspect(connection).has_table(*self._name()):
                self._new_table(columns).create(connection)
            target = self._reflected(connection)
            stored = {column.name.casefold(): column.name for column in target.columns}
            for name in columns:
                if name not in target.columns and name.casefold() not in stored:
                    known = ", ".join(f'"{column.name}"' for column in target.columns)
                    raise PipelineError("SINK.JDBC_COLUMN", column=name, table=self.table, known=known)
            names = {name: name if name in target.columns else stored[name.casefold()] for name in columns}
            stage = self._stage(target, names.values(), connection.dialect.name)
            stage.drop(connection, checkfirst=True)
            stage.create(connection)
        return names

    def put(
        self,
        engine: sa.Engine,
        names: Sequence[str],
        rows: Iterable[Mapping[str, Any]],
        part: Staged,
        refused: list[RefusedRow] | None = None,
    ) -> int:
        """Put rows beside the table, in one transaction; how many there are.

        Args:
            engine: from :meth:`connected`.
            names: of the columns.
            rows: the rows.
            part: which of the batch they are.
            refused: gets those that do not fit the types of the table; without, the first of them is an error.
        """
        count = 0
        with self.database.connected(engine, WRITE_FAILED) as connection, connection.begin():
            target = self._reflected(connection)
            stage = self._stage(target, names, connection.dialect.name)
            texts = [name for name in names if _is_json(target.c[name])]
            size = max(1, min(self.rows_per_statement, _MOST_VALUES // len(stage.columns)))
            chunk: list[dict[str, Any]] = []
            for number, row in enumerate(rows):
                more: dict[str, Any] = {name: _json_text(row[name]) for name in texts}
                if connection.dialect.name == "sqlite":
                    moments = {name: value for name, value in row.items() if isinstance(value, datetime)}
                    more = {**{name: _in_utc(value) for name, value in moments.items()}, **more}
                chunk.append({**row, **more, _PART: part.part, _TRY: part.attempt, _ROW: number})
                if len(chunk) == size:
                    count, chunk = count + _put(connection, stage, chunk, refused), []
            return count + (_put(connection, stage, chunk, refused) if chunk else 0)

    def take_over(
        self,
        engine: sa.Engine,
        names: Sequence[str],
        batch: Note,
        parts: Sequence[Staged],
        count: int,
        now: datetime,
        then: Callable[[], None],
        refuse: Callable[[RefusedRow], None] | None = None,
    ) -> bool:
        """Bring a batch into the table, in one transaction; False when it is there already.

        Args:
            engine: from :meth:`connected`.
            names: of the columns.
            batch: its number, and where it ends.
            parts: what of the stage belongs to it: other tries of the same tasks may have left rows, too.
            count: how many rows it has, with those that were refused before.
            now: when.
            then: called within the transaction, before it ends.
            refuse: gets rows that the table does not take, and may raise; without, the first of them is an error.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        with self.database.connected(engine, WRITE_FAILED) as connection, connection.begin():
            if not self._commits.claimed(connection, batch, count, now):
                return False
            target = self._reflected(connection)
            stage = self._stage(target, names, connection.dialect.name)
            mine = [sa.and_(stage.c[_PART] == p.part, stage.c[_TRY] == p.attempt) for p in parts if p.rows]
            if mine:
                self._check_whole(connection, stage, sa.or_(*mine), sum(part.rows for part in parts))

                def add(where: Any) -> None:
                    rows = sa.select(*(_staged(stage, target, name, connection.dialect.name) for name in names))
                    rows = rows.where(where)
                    connection.execute(self._insert(target, names, rows, connection.dialect.name))

                if refuse is None:
                    add(sa.or_(*mine))
                else:
                    _take(connection, stage, mine, add, refuse)
            then()
        return True

    def drop_stage(self, engine: sa.Engine) -> None:
        """Take away what lies beside the table."""
        with self.database.connected(engine, WRITE_FAILED) as connection, connection.begin():
            self._stage_named(connection.dialect.name).drop(connection, checkfirst=True)

    def _check_whole(self, connection: sa.Connection, stage: sa.Table, mine: Any, rows: int) -> None:
        """Look whether what lies beside the table is still there: a server that broke down empties such tables."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        found = connection.execute(sa.select(sa.func.count()).select_from(stage).where(mine)).scalar_one()
        if found != rows:
            reason = f"{found} of {rows} rows in the staging table are left"
            raise PipelineError("JDBC.BROKEN_OFF", database=self.database.description, reason=reason)

    def _insert(self, target: sa.Table, names: Sequence[str], rows: sa.Select[Any], dialect: str) -> Any:
        if not self.keys:
            return target.insert().from_select(list(names), rows)
        from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415 - an extra

        insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[dialect](target)
        insert = insert.from_select(list(names), rows)
        given = insert.excluded
        stored = {column.name.casefold(): column.name for column in target.columns}
        keys = [stored[key.casefold()] for key in self.keys]
        changed = {name: given[name] for name in names if name not in keys}
        if not changed:
            return insert.on_conflict_do_nothing(index_elements=keys)
        where = None
        if self.sequence_by is not None:
            column = stored[self.sequence_by.casefold()]
            where = target.c[column].is_(None) | (given[column] >= target.c[column])
        return insert.on_conflict_do_update(index_elements=keys, set_=changed, where=where)

    @property
    def _commits(self) -> Commits:
        return Commits(self.database, self.commits, self._name()[1], self.transaction)

    def _name(self) -> tuple[str, str | None]:
        *schema, name = split_name(self.table)
        return name, ".".join(schema) or None

    def _new_table(self, columns: Mapping[str, Any]) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        name, schema = self._name()
        keys = {key.casefold() for key in self.keys}
        return sa.Table(
            name,
            sa.MetaData(),
            *(sa.Column(c, t, primary_key=c.casefold() in keys, autoincrement=False) for c, t in columns.items()),
            schema=schema,
        )

    def _reflected(self, connection: sa.Connection) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        name, schema = self._name()
        return sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)

    def _stage_named(self, dialect: str, columns: Iterable[sa.Column[Any]] = ()) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        digest = hashlib.sha256(f"{self.transaction} {self.table}".encode()).hexdigest()[:_DIGEST_LENGTH]
        # What is lost when the server breaks down is written anew.
        prefixes = ["UNLOGGED"] if dialect == "postgresql" else []
        name, schema = f"headrace_stage_{digest}", self._name()[1]
        return sa.Table(name, sa.MetaData(), *columns, schema=schema, prefixes=prefixes)

    def _stage(self, target: sa.Table, names: Iterable[str], dialect: str) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        # JSON is text there, which the database reads once it is in the table: what is none is refused as any row.
        types = {name: sa.Text() if _is_json(target.c[name]) else target.c[name].type for name in names}
        columns: list[sa.Column[Any]] = [sa.Column(name, found) for name, found in types.items()]
        columns += [sa.Column(_PART, sa.Integer), sa.Column(_TRY, sa.String(100)), sa.Column(_ROW, sa.Integer)]
        columns.append(sa.Column(WHOLE, sa.Text))
        return self._stage_named(dialect, columns)


def _in_utc(moment: datetime) -> datetime:
    """A point in time for a database whose times have no zone; one of no zone stays as it is."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def _json_text(value: Any) -> str | None:
    """A value for a column of JSON; a text is JSON already."""
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _staged(stage: sa.Table, target: sa.Table, name: str, dialect: str) -> Any:
    """A column of the stage, as the table has it."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    wanted = target.c[name]
    # Other databases have no type of JSON, or take text for one.
    return sa.cast(stage.c[name], wanted.type) if _is_json(wanted) and dialect == "postgresql" else stage.c[name]


def _put(
    connection: sa.Connection, stage: sa.Table, rows: Sequence[Mapping[str, Any]], refused: list[RefusedRow] | None
) -> int:
    """Put rows into a table, those that do not fit left out where that is allowed; how many there are."""

    def put(first: int, end: int) -> None:
        connection.execute(stage.insert().values(list(rows[first:end])))

    if refused is None:
        put(0, len(rows))
        return len(rows)
    before = len(refused)

    def refuse(place: int, reason: str, error: Exception) -> None:
        if len(refused) >= MOST_OF_A_BATCH:
            raise error
        refused.append(RefusedRow(rows[place][WHOLE], reason, WRITE_FAILED))

    _in_parts(connection, 0, len(rows), put, refuse)
    return len(rows) - (len(refused) - before)


def _take(
    connection: sa.Connection,
    stage: sa.Table,
    mine: Sequence[Any],
    add: Callable[[Any], None],
    refuse: Callable[[RefusedRow], None],
) -> None:
    """Bring rows of a stage into their table, but those that it refuses."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if _refusal(connection, lambda: add(sa.or_(*mine))) is None:
        return
    for part in mine:

        def among(first: int, end: int, part: Any = part) -> Any:
            return sa.and_(part, stage.c[_ROW] >= first, stage.c[_ROW] < end)

        def refused(place: int, reason: str, _error: Exception, among: Any = among) -> None:
            row = connection.execute(sa.select(stage.c[WHOLE]).where(among(place, place + 1))).scalar_one()
            refuse(RefusedRow(str(row), reason, WRITE_FAILED))

        def take(first: int, end: int, among: Any = among) -> None:
            add(among(first, end))

        last = connection.execute(sa.select(sa.func.max(stage.c[_ROW])).where(part)).scalar_one()
        _in_parts(connection, 0, int(last) + 1, take, refused)


def _in_parts(
    connection: sa.Connection,
    first: int,
    end: int,
    work: Callable[[int, int], object],
    refuse: Callable[[int, str, Exception], None],
) -> None:
    """Do work on rows from one place up to another; parts that are refused are cut in two, down to a single row.

    Args:
        connection: in a transaction.
        first: the place of the first row.
        end: the place behind the last one.
        work: on the rows from one place up to another.
        refuse: gets the place of a row that is refused, why, and the error.
    """
    refusal = _refusal(connection, lambda: work(first, end))
    if refusal is None:
        return
    if end - first == 1:
        refuse(first, *refusal)
        return
    middle = (first + end) // 2
    _in_parts(connection, first, middle, work, refuse)
    _in_parts(connection, middle, end, work, refuse)


def _refusal(connection: sa.Connection, work: Callable[[], object]) -> tuple[str, Exception] | None:
    """Why a database refuses rows, with nothing of the work left; None where it does not."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    try:
        with connection.begin_nested():
            work()
    except sa.exc.DBAPIError as error:
        said = getattr(error.orig, "args", ())
        # pg8000 gives the server's fields by letters.
        fields = said[0] if said and isinstance(said[0], dict) else {}
        state = str(fields.get("C") or getattr(error.orig, "sqlstate", "") or "")
        of_rows = state.startswith(_CLASSES_OF_ROWS) or isinstance(error, (sa.exc.DataError, sa.exc.IntegrityError))
        if not of_rows:
            raise
        return str(fields.get("M") or error.orig).splitlines()[0], error
    return None


def _is_json(column: sa.Column[Any]) -> bool:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    return isinstance(column.type, sa.JSON)

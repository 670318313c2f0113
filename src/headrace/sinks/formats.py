"""The formats of sinks: their options, and what each promises about a batch that comes again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.model.sinks import FAN_OUT, FOREACH_BATCH
from headrace.sources.option_reading import Kind, SourceFormat, SourceOption, accepted, refused

PAGE = "docs/reference/sinks.md"
DELTA, KAFKA, CONSOLE, JDBC, HTTP = "delta", "kafka", "console", "jdbc", "http"
FILES = ("json", "csv", "parquet", "orc", "avro", "text", "xml")
NO_FALLBACK = "none"
# What the names of options begin with that go to a client as they are.
TO_KAFKA, TO_WRITER, AS_HEADER = "kafka.", "writer.", "header."


class Delivery(str, Enum):
    """What becomes of a batch that is delivered again after a crash."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class SinkFormat:
    """A format of sinks.

    Attributes:
        options: those that it takes, by name.
        delivery: what it promises.
        repeats: how a batch that comes again is told, in words.
        takes_updates: whether rows of update flows have a meaning there.
        connector: which has to be named in the settings; None for one that needs none.
        declared_by_name: whether ``create_sink`` makes it.
    """

    options: SourceFormat
    delivery: Delivery
    repeats: str
    takes_updates: bool = True
    connector: str | None = None
    declared_by_name: bool = True

    @property
    def name(self) -> str:
        """By which it is asked for."""
        return self.options.name


def _format(name: str, *options: SourceOption, passed_on: str = "") -> SourceFormat:
    return SourceFormat(name, options, PAGE, passed_on)


_FALLBACK = SourceOption(
    "fallback",
    Kind.TEXT,
    "Where batches of streams go while the sink is down: nowhere, so that the flow fails; or into the pipeline's "
    "storage, from which they reach the sink in their order when it is back",
    NO_FALLBACK,
    values=(NO_FALLBACK, "storage"),
)
_OURS = ("The transactions of a flow are numbered by Headrace", "Remove it")
_PATH = SourceOption("path", Kind.TEXT, "The folder of the files; relative to the project's own", required=True)
_FILES_FORMATS = tuple(
    SinkFormat(
        _format(
            name,
            _PATH,
            SourceOption("partitionBy", Kind.TEXT, "Columns that are folders, separated by commas"),
            refused("checkpointLocation", "Progress is in the flow's checkpoint", "Remove it"),
            passed_on=TO_WRITER,
        ),
        Delivery.EXACTLY_ONCE,
        "the files of a batch are written aside, listed, and then given their names; what a crash leaves of that is "
        "finished, not repeated",
        takes_updates=False,
        connector="avro" if name == "avro" else None,
    )
    for name in FILES
)
_FORMATS = (
    SinkFormat(
        _format(
            DELTA,
            SourceOption("path", Kind.TEXT, "The folder of the table; relative to the project's own"),
            SourceOption("tableName", Kind.TEXT, "The table's name, in place of a path: of one to three parts"),
            SourceOption("mergeSchema", Kind.SWITCH, "Whether new columns of the rows are added to the table", "false"),
            SourceOption("partitionBy", Kind.TEXT, "Columns that a new table is partitioned by, separated by commas"),
            refused("txnAppId", *_OURS),
            refused("txnVersion", *_OURS),
            refused("overwriteSchema", "Rows are only added", "Change the table before the flow goes on"),
            refused("checkpointLocation", "Progress is in the flow's checkpoint", "Remove it"),
        ),
        Delivery.EXACTLY_ONCE,
        "by the transaction (pipeline, flow, epoch, batch) in the table's log",
        takes_updates=False,
    ),
    SinkFormat(
        _format(
            KAFKA,
            SourceOption(
                "kafka.bootstrap.servers",
                Kind.TEXT,
                "Brokers to ask first: `host:9092`, separated by commas",
                required=True,
            ),
            SourceOption("topic", Kind.TEXT, "The topic of all rows; without it, rows have a column `topic`"),
            SourceOption(
                "deliveryHeaders",
                Kind.SWITCH,
                "Whether records have headers by which repeats are told",
                "true",
            ),
            _FALLBACK,
            refused("kafka.key.serializer", "Keys are bytes or text", "Convert the column in the flow"),
            refused("kafka.value.serializer", "Values are bytes or text", "Convert the column in the flow"),
            refused("checkpointLocation", "Progress is in the flow's checkpoint", "Remove it"),
            passed_on=TO_KAFKA,
        ),
        Delivery.AT_LEAST_ONCE,
        "by the headers `headrace-batch` (flow, epoch, batch), `headrace-attempt` and `headrace-row` of a record: of a "
        "batch, the records of its greatest attempt count, each row once",
        connector="kafka",
    ),
    SinkFormat(
        _format(
            CONSOLE,
            SourceOption("numRows", Kind.COUNT, "Rows of a batch that are shown", "20"),
            SourceOption("truncate", Kind.SWITCH, "Whether long values are cut to 20 characters", "true"),
        ),
        Delivery.AT_LEAST_ONCE,
        "by the number of the batch, which is shown",
    ),
    SinkFormat(
        _format(
            JDBC,
            SourceOption(
                "url", Kind.SECRET, "`jdbc:postgresql://host:5432/database`, or a URL of SQLAlchemy", required=True
            ),
            SourceOption("dbtable", Kind.TEXT, "The table, with its schema in front where needed", required=True),
            SourceOption("user", Kind.TEXT, "Who writes"),
            SourceOption("password", Kind.SECRET, "Of the user"),
            SourceOption(
                "mode",
                Kind.TEXT,
                "Whether rows are added, or take the place of those with their key",
                "insert",
                values=("insert", "upsert"),
            ),
            SourceOption(
                "keys", Kind.TEXT, "Columns of the key, separated by commas; the table has a constraint of them"
            ),
            SourceOption(
                "sequenceBy", Kind.TEXT, "A row takes the place of one with no greater value of this column alone"
            ),
            SourceOption("commitTable", Kind.TEXT, "Where batches are noted", "headrace_commits"),
            SourceOption("batchSize", Kind.COUNT, "Rows of a statement", "1000"),
            SourceOption("numPartitions", Kind.COUNT, "Tasks that write at a time, each with a connection of its own"),
            _FALLBACK,
            accepted("driver", "The driver is SQLAlchemy's"),
            refused("query", "It is for reading", "Name the table with dbtable"),
            refused("truncate", "Rows are added, or replaced by key", "Empty the table before the flow runs"),
        ),
        Delivery.EXACTLY_ONCE,
        "by the table of commits, which is written in the transaction that brings the batch",
    ),
    SinkFormat(
        _format(
            HTTP,
            SourceOption("url", Kind.SECRET, "Of the server", required=True),
            SourceOption("method", Kind.TEXT, "Of a request", "POST", values=("POST", "PUT", "PATCH")),
            SourceOption(
                "body",
                Kind.TEXT,
                "What a request carries: an array of rows, a row a line, or one row",
                "array",
                values=("array", "lines", "object"),
            ),
            SourceOption("rowsPerRequest", Kind.COUNT, "At most; with the body `object` it is 1", "100"),
            SourceOption("concurrency", Kind.COUNT, "Requests under way at a time, at most", "4"),
            SourceOption("requestsPerSecond", Kind.NUMBER, "Requests that begin in a second, at most"),
            SourceOption(
                "timeout",
                Kind.INTERVAL,
                "How long a request may wait: to connect, to send, for the next part of an answer",
                "30 s",
            ),
            SourceOption("maxAttempts", Kind.COUNT, "How often a request is sent, at most", "5"),
            SourceOption("retryBudget", Kind.INTERVAL, "For how long a request is sent again", "60 s"),
            SourceOption("bearerToken", Kind.SECRET, "For the header Authorization"),
            SourceOption("keys", Kind.TEXT, "Columns: rows equal in these are sent one request after the other"),
            SourceOption("orderBy", Kind.TEXT, "Columns that their order goes by; with keys"),
            SourceOption("idempotencyHeader", Kind.TEXT, "Which has the request's key", "Idempotency-Key"),
            _FALLBACK,
            refused("checkpointLocation", "Progress is in the flow's checkpoint", "Remove it"),
            passed_on=AS_HEADER,
        ),
        Delivery.AT_LEAST_ONCE,
        "by the header `Idempotency-Key` of a request: a batch that comes again is cut into the same requests, "
        "with the same keys",
    ),
    *_FILES_FORMATS,
    SinkFormat(
        _format(FOREACH_BATCH),
        Delivery.AT_LEAST_ONCE,
        "by the number of the batch that the function gets; `headrace.delivery` keeps track of it",
        declared_by_name=False,
    ),
    SinkFormat(
        _format(FAN_OUT),
        Delivery.AT_LEAST_ONCE,
        "as each of its sinks does; one that has taken a batch does not get it again because another one failed",
        declared_by_name=False,
    ),
)
FORMATS: Mapping[str, SinkFormat] = {found.name.casefold(): found for found in _FORMATS}


def format_of(name: str) -> SinkFormat | None:
    """The format of a name, in whatever case; None for one that Spark has to know."""
    return FORMATS.get(name.casefold())

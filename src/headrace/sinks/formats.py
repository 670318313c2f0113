"""The sink formats: their options and delivery guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.model.sinks import FAN_OUT, FOREACH_BATCH
from headrace.options.option import Kind, Option, OptionTable, accepted, refused

PAGE = "docs/reference/sinks.md"
DELTA, KAFKA, CONSOLE, JDBC, HTTP = "delta", "kafka", "console", "jdbc", "http"
FILES = ("json", "csv", "parquet", "orc", "avro", "text", "xml")
NO_FALLBACK = "none"
# Prefixes of options that go unchanged to a client.
KAFKA_PREFIX, WRITER_PREFIX, HEADER_PREFIX = "kafka.", "writer.", "header."


class Delivery(str, Enum):
    """The guarantee for a batch that is delivered again after a crash."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class SinkFormat:
    """A sink format.

    Attributes:
        options: its options.
        delivery: its delivery guarantee.
        deduplication: how repeated batches are recognized, in words.
        accepts_updates: whether update flows can write to it.
        connector: the connector that the settings must name, if any.
        declared_by_name: whether ``create_sink`` accepts it.
    """

    options: OptionTable
    delivery: Delivery
    deduplication: str
    accepts_updates: bool = True
    connector: str | None = None
    declared_by_name: bool = True

    @property
    def name(self) -> str:
        """The name of the format."""
        return self.options.name


def _format(name: str, *options: Option, passed_on: str = "") -> OptionTable:
    return OptionTable(name, options, PAGE, passed_on)


_FALLBACK = Option(
    "fallback",
    Kind.TEXT,
    "What happens to the batches of a stream while the sink is down. `none`: the flow fails. `storage`: they go to a "
    "spill queue in the pipeline's storage, and are delivered in order when the sink is back",
    NO_FALLBACK,
    values=(NO_FALLBACK, "storage"),
)
_OURS = ("Headrace sets the transaction numbers of a flow", "Remove it")
_PATH = Option("path", Kind.TEXT, "Folder of the files, relative to the project folder", required=True)
_FILES_FORMATS = tuple(
    SinkFormat(
        _format(
            name,
            _PATH,
            Option("partitionBy", Kind.TEXT, "Partition columns, separated by commas"),
            refused("checkpointLocation", "Progress is stored in the flow's checkpoint", "Remove it"),
            passed_on=WRITER_PREFIX,
        ),
        Delivery.EXACTLY_ONCE,
        "By a journal. The files of a batch are written to a hidden folder, listed in the journal, then moved. After a "
        "crash, the moves are completed from the journal, not repeated",
        accepts_updates=False,
        connector="avro" if name == "avro" else None,
    )
    for name in FILES
)
_FORMATS = (
    SinkFormat(
        _format(
            DELTA,
            Option("path", Kind.TEXT, "Folder of the table, relative to the project folder"),
            Option("tableName", Kind.TEXT, "Name of the table, with one to three parts; instead of `path`"),
            Option("mergeSchema", Kind.BOOLEAN, "Add new columns of the rows to the table", "false"),
            Option("partitionBy", Kind.TEXT, "Partition columns of a new table, separated by commas"),
            refused("txnAppId", *_OURS),
            refused("txnVersion", *_OURS),
            refused("overwriteSchema", "Flows only append rows", "Change the table before the flow continues"),
            refused("checkpointLocation", "Progress is stored in the flow's checkpoint", "Remove it"),
        ),
        Delivery.EXACTLY_ONCE,
        "By the transaction (pipeline, flow, epoch, batch) in the table's log",
        accepts_updates=False,
    ),
    SinkFormat(
        _format(
            KAFKA,
            Option(
                "kafka.bootstrap.servers",
                Kind.TEXT,
                "Brokers for the first connection: `host:9092`, separated by commas",
                required=True,
            ),
            Option("topic", Kind.TEXT, "Topic for all rows. Without it, rows need a column `topic`"),
            Option(
                "deliveryHeaders",
                Kind.BOOLEAN,
                "Add headers to each record, so that consumers can recognize repeats",
                "true",
            ),
            _FALLBACK,
            refused("kafka.key.serializer", "Keys are bytes or text", "Convert the column in the flow"),
            refused("kafka.value.serializer", "Values are bytes or text", "Convert the column in the flow"),
            refused("checkpointLocation", "Progress is stored in the flow's checkpoint", "Remove it"),
            passed_on=KAFKA_PREFIX,
        ),
        Delivery.AT_LEAST_ONCE,
        "By the record headers `headrace-batch` (pipeline, flow, epoch, batch), `headrace-attempt` and `headrace-row`. "
        "Keep the records with the greatest attempt of a batch, and each row once",
        connector="kafka",
    ),
    SinkFormat(
        _format(
            CONSOLE,
            Option("numRows", Kind.POSITIVE_INTEGER, "Maximum number of rows shown per batch", "20"),
            Option("truncate", Kind.BOOLEAN, "Cut long values to 20 characters", "true"),
        ),
        Delivery.AT_LEAST_ONCE,
        "By the batch number, which is shown",
    ),
    SinkFormat(
        _format(
            JDBC,
            Option("url", Kind.SECRET, "`jdbc:postgresql://host:5432/database`, or a SQLAlchemy URL", required=True),
            Option("dbtable", Kind.TEXT, "Table, as `table` or `schema.table`", required=True),
            Option("user", Kind.TEXT, "Database user"),
            Option("password", Kind.SECRET, "Password of the user"),
            Option(
                "mode",
                Kind.TEXT,
                "`insert` adds rows. `upsert` replaces rows with the same key",
                "insert",
                values=("insert", "upsert"),
            ),
            Option("keys", Kind.TEXT, "Key columns, separated by commas. The table needs a unique constraint on them"),
            Option(
                "sequenceBy", Kind.TEXT, "A row replaces the stored row only if its value in this column is not smaller"
            ),
            Option("commitTable", Kind.TEXT, "Table that records the delivered batches", "headrace_commits"),
            Option("batchSize", Kind.POSITIVE_INTEGER, "Rows per statement", "1000"),
            Option("numPartitions", Kind.POSITIVE_INTEGER, "Number of parallel tasks, each with its own connection"),
            _FALLBACK,
            accepted("driver", "SQLAlchemy chooses the driver by the URL"),
            refused("query", "It is for reading", "Name the table with dbtable"),
            refused("truncate", "Rows are only inserted, or replaced by key", "Empty the table before the flow runs"),
        ),
        Delivery.EXACTLY_ONCE,
        "By the commit table, which is written in the same transaction as the rows",
    ),
    SinkFormat(
        _format(
            HTTP,
            Option("url", Kind.SECRET, "URL of the server", required=True),
            Option("method", Kind.TEXT, "HTTP method", "POST", values=("POST", "PUT", "PATCH")),
            Option(
                "body",
                Kind.TEXT,
                "Body of a request. `array`: a JSON array of rows. `lines`: one row per line. `object`: a single row",
                "array",
                values=("array", "lines", "object"),
            ),
            Option("rowsPerRequest", Kind.POSITIVE_INTEGER, "Maximum rows per request; 1 if `body` is `object`", "100"),
            Option("concurrency", Kind.POSITIVE_INTEGER, "Maximum number of parallel requests", "4"),
            Option("requestsPerSecond", Kind.NUMBER, "Maximum number of requests started per second"),
            Option(
                "timeout",
                Kind.INTERVAL,
                "Maximum wait for each step of a request: to connect, to send, to receive the next part of the answer",
                "30 s",
            ),
            Option("maxAttempts", Kind.POSITIVE_INTEGER, "Maximum number of attempts per request", "5"),
            Option("retryBudget", Kind.INTERVAL, "Total time in which a request is retried", "60 s"),
            Option("bearerToken", Kind.SECRET, "Token for the `Authorization` header"),
            Option("keys", Kind.TEXT, "Columns. Rows with equal values are sent in order, never in parallel"),
            Option("orderBy", Kind.TEXT, "Columns that define this order; needs `keys`"),
            Option("idempotencyHeader", Kind.TEXT, "Header that holds the idempotency key", "Idempotency-Key"),
            _FALLBACK,
            refused("checkpointLocation", "Progress is stored in the flow's checkpoint", "Remove it"),
            passed_on=HEADER_PREFIX,
        ),
        Delivery.AT_LEAST_ONCE,
        "By the header `Idempotency-Key` of a request. A batch that comes again is split into the same requests, "
        "with the same keys",
    ),
    *_FILES_FORMATS,
    SinkFormat(
        _format(FOREACH_BATCH),
        Delivery.AT_LEAST_ONCE,
        "By the batch number that the function gets. `headrace.delivery` records it for you",
        declared_by_name=False,
    ),
    SinkFormat(
        _format(FAN_OUT),
        Delivery.AT_LEAST_ONCE,
        "As each of its sinks does. If one sink fails, the others do not get the batch again",
        declared_by_name=False,
    ),
)
FORMATS: Mapping[str, SinkFormat] = {found.name.casefold(): found for found in _FORMATS}


def format_of(name: str) -> SinkFormat | None:
    """The format with a name, case-insensitive; None for a format that only Spark may know."""
    return FORMATS.get(name.casefold())

"""The reference page of Event Hubs, made from the table of its options."""

from __future__ import annotations

from headrace.sources.event_hubs_options import FORMAT
from option_tables import options_of

_BEFORE = """\
# Event Hubs

Reads an event hub as a stream, with the options and columns of the vendor's connector. Name the Kafka connector in the
settings:

    connectors: [kafka]

```python
@dp.table
def telemetry():
    connection = dbutils.secrets.get("azure", "telemetry")
    return spark.readStream.format("eventhubs").option("eventhubs.connectionString", connection).load()
```

The vendor's connector has no build for Scala 2.13. Headrace uses Spark's Kafka source instead, on the Kafka endpoint of
the service (Standard tier and above), with the same exactly-once guarantee. It was tested with a Kafka broker with TLS
and SASL PLAIN, not with the service itself.

Use the connection string of the event hub, which contains `EntityPath`. It must not be encrypted, because
`EventHubsUtils.encrypt` belongs to the vendor's connector. The string appears in no checkpoint, event, plan or error.

Failures, lost offsets and lag work as described for [Kafka](kafka.md).

## Columns

| column | type | what it is |
|---|---|---|
| `body` | binary | the event |
| `partition` | string | |
| `offset` | string | the event's sequence number, which is its offset on the Kafka endpoint; the vendor's connector returns a byte offset |
| `sequenceNumber` | bigint | the sequence number as a number |
| `enqueuedTime` | timestamp | |
| `publisher` | string | always NULL: the Kafka endpoint does not provide it |
| `partitionKey` | string | the key |
| `properties` | map<string, string> | the headers, as strings. If a header is repeated, the last value is used. Properties that a sender sets over AMQP arrive in AMQP encoding |
| `systemProperties` | map<string, string> | always empty |

## Options

Other `kafka.*` options are passed to the Kafka client, and override what Headrace derives from the connection string. For
example, `kafka.bootstrap.servers` names other servers, such as a private endpoint or a test broker, and
`kafka.ssl.truststore.location` names the certificate authority for them. Any other option that is not listed is an error,
which suggests the nearest name. Option names are case-insensitive.
"""

_AFTER = """\
A position looks like `{"offset": "-1", "seqNo": -1, "enqueuedTime": null, "isInclusive": true}`. Set exactly one of these:

| field | value | when not used |
|---|---|---|
| `offset` | `"-1"` for the start, `"@latest"` for the end. A byte offset is refused, because Kafka has none | `null` |
| `seqNo` | a sequence number | `-1` |
| `enqueuedTime` | a time, such as `"2026-01-01T00:00:00Z"` | `null` |

- The keys of `startingPositions` are JSON too: `{"ehName": "telemetry", "partitionId": 0}`.
- Do not mix times and sequence numbers: Spark's Kafka source takes one or the other.
- A batch that ends at a `seqNo` ends before that event, whatever `isInclusive` says. The vendor's connector does the same.
- With a `seqNo`, or positions for single partitions, Headrace asks the hub for its number of partitions each time the query
  is called.

Event Hubs keeps events for days only. A full refresh reads those that are left. If you cannot read events again
elsewhere, store them in a table of their own.

Writing to an event hub is not supported.
"""


def event_hubs_reference() -> str:
    """The expected text of docs/reference/event-hubs.md."""
    return "\n".join((_BEFORE, options_of(FORMAT), _AFTER))

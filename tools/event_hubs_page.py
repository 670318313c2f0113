"""The reference page of Event Hubs, made from the table of its options."""

from __future__ import annotations

from headrace.sources.event_hubs_options import FORMAT
from option_tables import options_of

_BEFORE = """\
# Event Hubs

`format("eventhubs")` as in programs for the vendor's connector, which has no build for Scala 2.13. It reads over the
Kafka surface of the service (Standard tier and above), with Spark's own Kafka source and its exactly-once; the settings
say `connectors: [kafka]`.

```python
@dp.table
def telemetry():
    connection = dbutils.secrets.get("azure", "telemetry")
    return spark.readStream.format("eventhubs").option("eventhubs.connectionString", connection).load()
```

The connection string is that of the hub, with `EntityPath`, not encrypted (`EventHubsUtils.encrypt` is a class of the
vendor's). It is in no checkpoint, event, plan or error. What [Kafka](kafka.md) says of failures, lost offsets and lag
holds here too. All of this was run against a Kafka broker with TLS and SASL PLAIN, not against the service itself.

## Columns

| column | type | what it is |
|---|---|---|
| `body` | binary | the event |
| `partition` | string | |
| `offset` | string | the event's position. The Kafka surface has one, which is the sequence number; the vendor's connector gives bytes here |
| `sequenceNumber` | bigint | the same, as a number |
| `enqueuedTime` | timestamp | |
| `publisher` | string | always NULL: the Kafka surface does not tell it |
| `partitionKey` | string | the key |
| `properties` | map<string, string> | the headers, as text; the last one of a name counts. What a sender by AMQP has set arrives in AMQP's encoding |
| `systemProperties` | map<string, string> | always empty |

## Options

Every other `kafka.*` option goes to Kafka's client, before what is made of the connection string: `kafka.bootstrap.servers`
names other servers, such as private ones or a broker of a test, `kafka.ssl.truststore.location` its authority. Any other
name that is not listed is an error that names the nearest; names are matched whatever their case.
"""

_AFTER = """\
A position is `{"offset": "-1", "seqNo": -1, "enqueuedTime": null, "isInclusive": true}` with exactly one of `offset` (`"-1"`
for the start and `"@latest"` for the end), `seqNo`, and `enqueuedTime` (`"2026-01-01T00:00:00Z"`) in use. Keys of
`startingPositions` are JSON too: `{"ehName": "telemetry", "partitionId": 0}`. Spark's source takes times or sequence
numbers, so the two are not mixed. A batch ends before the event of its number, whatever `isInclusive` says, as with the
vendor's connector. An offset in bytes is refused: it has no meaning there. Positions of partitions, and a `seqNo`, ask the
hub how many partitions it has whenever the query is called.

Events are kept for days, and a full refresh reads what is left: keep what you cannot read again in a table of its own.
Writing to a hub is not there yet.
"""


def event_hubs_reference() -> str:
    """docs/reference/event-hubs.md as it must be."""
    return "\n".join((_BEFORE, options_of(FORMAT), _AFTER))

"""Debezium's envelope after parsing: the columns of the row, and one struct column that describes the change."""

from __future__ import annotations

# The struct column, with the fields below.
ENVELOPE = "_debezium"
# The operation: create, snapshot read, update, delete, truncate.
OP = "op"
CREATE, READ, UPDATE, DELETE, TRUNCATE = "c", "r", "u", "d", "t"
OPERATIONS = (CREATE, READ, UPDATE, DELETE, TRUNCATE)
# Orders the events of a key: position in the source's log, source clock, Kafka offset.
SEQUENCE = "sequence"
# The columns that a partial event sets; NULL for all.
SETS = "sets"
# Why a message could not be parsed, and the message; NULL otherwise.
ERROR, VALUE = "error", "value"
FIELDS = (OP, SEQUENCE, SETS, ERROR, VALUE)
# PostgreSQL's connector writes this for an unchanged large value, which the log does not contain.
UNAVAILABLE = "__debezium_unavailable_value"

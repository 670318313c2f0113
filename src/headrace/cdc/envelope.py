"""Debezium's envelope, once it was opened: the row's columns, and beside them one column that says what happened."""

from __future__ import annotations

# The column beside the row's own: a struct of what follows.
ENVELOPE = "_debezium"
# What happened: create, read by a snapshot, update, delete, truncate.
OP = "op"
CREATE, READ, UPDATE, DELETE, TRUNCATE = "c", "r", "u", "d", "t"
OPERATIONS = (CREATE, READ, UPDATE, DELETE, TRUNCATE)
# Orders the events of a key: position in the source's log, its clock, Kafka's offset.
SEQUENCE = "sequence"
# The columns that the event sets, where it leaves some out; NULL for all.
SETS = "sets"
# Why a message could not be opened, and what it was; NULL for all others.
ERROR, VALUE = "error", "value"
FIELDS = (OP, SEQUENCE, SETS, ERROR, VALUE)
# What PostgreSQL's connector puts in the place of a large value that did not change, which the log does not hold.
UNAVAILABLE = "__debezium_unavailable_value"

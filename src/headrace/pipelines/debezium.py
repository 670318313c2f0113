"""``debezium``: convert Debezium messages to change events for a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pipelines.registry import current_reader


def debezium(
    messages: Any,
    row: Any = None,
    *,
    timestamps: str | Mapping[str, str] | None = None,
    decimals: str | None = None,
    subject: str | None = None,
    registry: str | Mapping[str, Any] | None = None,
) -> Any:
    """Unpack the envelopes of Debezium messages: JSON, or Avro with *subject* and *registry*.

    Change flows understand the result: deletes remove rows, and ``_debezium`` is not a column of the target. The flow
    needs ``keys`` and ``sequence_by="_debezium.sequence"``.

    Args:
        messages: a frame with the column ``value``, such as a Kafka stream; ``offset`` is used if it exists.
        row: the columns of the database table, as DDL or a StructType; not needed with Avro.
        timestamps: the meaning of numbers in columns of type TIMESTAMP or TIMESTAMP_NTZ in *row*: ``millis``,
            ``micros`` or ``nanos`` since 1970, or ``text`` if they are strings; for all columns, or by column.
        decimals: the meaning of strings in columns of type DECIMAL in *row*: ``bytes`` for base64, with the scale of
            the column in the database; ``text`` for digits.
        subject: the subject in the registry with the envelope's schema, usually ``<topic>-value``.
        registry: the registry's URL, or the settings of Confluent's client.

    Returns:
        A frame of the row's columns (after the change; for a delete, before it) and ``_debezium``: a struct of ``op``,
        ``sequence``, ``sets``, ``error`` and ``value``. Messages without a value are skipped. An unreadable message has
        NULL in all columns of the row, and its text in ``_debezium.value``.

    Raises:
        PipelineError: DEBEZIUM.ARGUMENT: an argument is missing or invalid; CONFLUENT.*: the registry fails.
    """
    return current_reader("debezium").opened(
        messages, row, timestamps=timestamps, decimals=decimals, subject=subject, registry=registry
    )

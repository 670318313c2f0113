"""``debezium``: messages of Debezium as change events that a flow applies."""

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
    """Open the envelopes of Debezium's messages, as JSON or, with *subject* and *registry*, as Avro.

    A flow that applies changes knows what comes of it: deletes take rows away, and ``_debezium`` is no column of the
    target. It needs ``keys`` and ``sequence_by="_debezium.sequence"``.

    Args:
        messages: a frame with the column ``value``, such as a stream of Kafka; ``offset`` is used where it is there.
        row: the columns of the table in the database, as DDL or a StructType; with Avro they are known without.
        timestamps: what numbers mean in columns that *row* calls TIMESTAMP or TIMESTAMP_NTZ: ``millis``, ``micros`` or
            ``nanos`` since 1970, or ``text`` where there are none; for all columns, or by column.
        decimals: what texts mean in columns that *row* calls DECIMAL: ``bytes`` for base64, which has
            the scale of the column in the database and not one of its own; ``text`` for digits.
        subject: whose schema in the registry says what the envelope looks like, usually ``<topic>-value``.
        registry: its address, or the settings of Confluent's client.

    Returns:
        A frame of the row's columns, after the change or, for a delete, before it, and of ``_debezium``: a struct of
        ``op``, ``sequence``, ``sets``, ``error`` and ``value``. Messages without a value are passed over. One that
        cannot be read has NULL in all columns of the row, and its text in ``_debezium.value``.

    Raises:
        PipelineError: DEBEZIUM.ARGUMENT for what is missing or means nothing, CONFLUENT.* for the registry.
    """
    return current_reader("debezium").opened(
        messages, row, timestamps=timestamps, decimals=decimals, subject=subject, registry=registry
    )

"""Keys of this package that a flow, or the pipeline's configuration for all flows, sets among Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.model.refresh import AUTO_REFRESH_KEY, InvalidAutoRefresh, auto_refresh
from headrace.model.small_batches import SMALL_BATCH_ROWS_KEY, InvalidSmallBatches, small_batch_rows
from headrace.model.static_inputs import STATIC_INPUTS_KEY, InvalidStaticInputs, StaticInputs


@dataclass(frozen=True)
class WrongConf:
    """A key with an invalid value.

    Attributes:
        key: the key.
        code: of the error for a flow.
        reason: why the value is invalid.
        hint: how to correct it.
    """

    key: str
    code: str
    reason: str
    hint: str


def wrong_flow_confs(confs: Mapping[str, str]) -> Iterator[WrongConf]:
    """The keys whose values are invalid."""
    try:
        StaticInputs.of(confs.get(STATIC_INPUTS_KEY))
    except InvalidStaticInputs as invalid:
        hint = 'Write newest, start, or an interval such as "10 minutes".'
        yield WrongConf(STATIC_INPUTS_KEY, "FLOW.STATIC_INPUTS", str(invalid), hint)
    try:
        small_batch_rows(confs.get(SMALL_BATCH_ROWS_KEY))
    except InvalidSmallBatches as invalid:
        hint = "Write a number of rows; 0 lets Spark write all batches."
        yield WrongConf(SMALL_BATCH_ROWS_KEY, "FLOW.SMALL_BATCHES", str(invalid), hint)
    try:
        auto_refresh(confs.get(AUTO_REFRESH_KEY))
    except InvalidAutoRefresh as invalid:
        yield WrongConf(AUTO_REFRESH_KEY, "FLOW.AUTO_REFRESH", str(invalid), "Write full or cheaper.")

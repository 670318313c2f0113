"""The state of a flow after its newest completed batch, read with the session's state reader."""

from __future__ import annotations

from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.checkpoints.offsets import newest_batches
from headrace.checkpoints.state_formats import format_of, format_text
from headrace.checkpoints.state_stores import FUNCTION, JOIN, StateOperator, state_operators
from headrace.errors import PipelineError
from headrace.model.state_rows import Side, StateRequest, StateRows
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.readers.state_reader import StatePart, state_metadata, state_rows
from headrace.storage.health import FlowHealth

# A running update deletes the state of old batches, so that a slow reader may have to start again.
_ATTEMPTS = 3


def flow_state(health: FlowHealth, request: StateRequest, session: Callable[[], SparkSession]) -> StateRows:
    """The rows of a flow's state, or with ``request.metadata`` its operators and stores.

    An update may run meanwhile: what is read is the state after a completed batch, which later batches do not change.

    Args:
        health: the flow.
        request: what to show.
        session: opens a session; called once the flow is known to have such state.

    Raises:
        PipelineError: STATE.NONE, STATE.NO_BATCH, STATE.WHICH_OPERATOR, STATE.NO_OPERATOR, STATE.WHICH_VARIABLE,
            STATE.NO_VARIABLE, STATE.NOT_A_JOIN, STATE.BAD_KEY, STATE.UNREADABLE.
    """
    operators = _operators(health)
    if request.metadata:
        operator, side, variable = operators[0], "", ""
    else:
        operator = _operator(health, operators, request.operator)
        side, variable = _side(health, operator, request), _variable(health, operator, request)
    attempts = _ATTEMPTS
    while True:
        attempts -= 1
        batch = _newest_batch(health)
        confs = {**health.stored.record.confs, **format_of(health.stores.checkpoint)}
        part = StatePart(health.stores.checkpoint, batch, operator.number, side, variable, confs)
        try:
            return _read(session(), health, request, part, operator)
        except (PySparkException, Py4JJavaError) as error:
            if not attempts or _newest_batch(health) == batch:
                raise _unreadable(health, part, error) from error


def _read(
    session: SparkSession, health: FlowHealth, request: StateRequest, part: StatePart, operator: StateOperator
) -> StateRows:
    flow = health.stored.name
    if request.metadata:
        return StateRows(flow, part.batch, "operators and stores", state_metadata(session, part.checkpoint))
    rows, has_more = state_rows(session, part, request.keys, request.rows)
    return StateRows(flow, part.batch, _title(operator, part), rows, has_more)


def _title(operator: StateOperator, part: StatePart) -> str:
    named = f"operator {operator.number}" + (f" ({operator.name})" if operator.name else "")
    side = f", {part.side} side" if part.side else ""
    return f"{named}{side}" + (f', variable "{part.variable}"' if part.variable else "")


def _newest_batch(health: FlowHealth) -> int:
    _, done = newest_batches(health.stores.checkpoint)
    if done is None:
        raise PipelineError("STATE.NO_BATCH", flow=health.stored.name, name=health.stored.dataset)
    return done


def _operators(health: FlowHealth) -> tuple[StateOperator, ...]:
    if not health.has_checkpoint:
        raise PipelineError("STATE.NONE", flow=health.stored.name, mode=health.stores.mode.value)
    _newest_batch(health)
    found = state_operators(health.stores.checkpoint)
    if not found:
        raise PipelineError("STATE.NONE", flow=health.stored.name, mode=health.stores.mode.value)
    return found


def _operator(health: FlowHealth, operators: tuple[StateOperator, ...], number: int | None) -> StateOperator:
    known = ", ".join(f"{operator.number} ({operator.name or 'unknown'})" for operator in operators)
    if number is None:
        if len(operators) > 1:
            raise PipelineError("STATE.WHICH_OPERATOR", flow=health.stored.name, operators=known)
        return operators[0]
    found = next((operator for operator in operators if operator.number == number), None)
    if found is None:
        raise PipelineError("STATE.NO_OPERATOR", flow=health.stored.name, number=number, operators=known)
    return found


def _side(health: FlowHealth, operator: StateOperator, request: StateRequest) -> str:
    if operator.name == JOIN:
        return (request.side or Side.LEFT).value
    if request.side is not None:
        raise PipelineError(
            "STATE.NOT_A_JOIN", flow=health.stored.name, number=operator.number, kind=operator.name or "unknown"
        )
    return ""


def _variable(health: FlowHealth, operator: StateOperator, request: StateRequest) -> str:
    known = ", ".join(f'"{name}"' for name in operator.variables)
    if request.variable is not None:
        # A function of an older Spark has no list of its variables.
        is_unknown = operator.name == FUNCTION and not operator.variables
        if not is_unknown and request.variable not in operator.variables:
            raise PipelineError(
                "STATE.NO_VARIABLE", flow=health.stored.name, variable=request.variable, variables=known or "none"
            )
        return request.variable
    if operator.name == FUNCTION and len(operator.variables) > 1:
        raise PipelineError("STATE.WHICH_VARIABLE", flow=health.stored.name, variables=known)
    return operator.variables[0] if operator.variables else ""


def _unreadable(health: FlowHealth, part: StatePart, error: PySparkException | Py4JJavaError) -> PipelineError:
    message = str(error) if isinstance(error, PySparkException) else innermost(tuple(chain(error))).message
    return PipelineError(
        "STATE.UNREADABLE",
        flow=health.stored.name,
        batch=part.batch,
        format=format_text(part.confs or {}),
        reason=message.strip().splitlines()[0].rstrip("."),
    )

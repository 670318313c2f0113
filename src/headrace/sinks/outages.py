"""Recognizes outages of a sink, after which it will accept the same rows."""

from __future__ import annotations

from headrace.errors import PipelineError

# SQLSTATE classes: the login is refused, or the database does not exist.
_NOT_LET_IN = ("28", "3D")
# A lost connection, or a server that shuts down or starts; not canceled statements or insufficient resources.
_GOING_DOWN = ("08", "57P")
# A server may mean itself, or the rows in the request.
_AMBIGUOUS_STATUS = "500"


def is_outage(problem: PipelineError) -> bool:
    """True for a sink's problem that ends by itself; others would recur with the same rows."""
    state = str(problem.params.get("state", ""))
    match problem.code:
        case "JDBC.UNREACHABLE":
            return not state.startswith(_NOT_LET_IN)
        case "JDBC.BROKEN_OFF":
            return not state or state.startswith(_GOING_DOWN)
        case "SINK.HTTP_DOWN":
            return state != _AMBIGUOUS_STATUS
        case code:
            return code == "KAFKA.UNREACHABLE"

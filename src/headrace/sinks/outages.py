"""When a sink is down: it will take the same rows once it is back."""

from __future__ import annotations

from headrace.errors import PipelineError

# Classes of SQLSTATE: who asks is not let in, and what is asked for is not there.
_NOT_LET_IN = ("28", "3D")
# A lost connection, and a server that goes down or comes up; not what somebody has ended, and no lack of room.
_GOING_DOWN = ("08", "57P")
# A server may say so of itself, and of the rows that it was given.
_AMBIGUOUS_STATUS = "500"


def is_outage(problem: PipelineError) -> bool:
    """True for problems of a sink that its end alone will solve; others would come again with the same rows."""
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

"""Errors as answers of the API: the JSON of the command line, with a status of HTTP."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.responses import Response

from headrace.errors import ErrorKind, PipelineError, Problems
from headrace.serve.api.routes import METRICS_PATH
from headrace.serve.render import json_answer

_STATUSES = {
    "API.UNAUTHORIZED": 401,
    "API.FORBIDDEN": 403,
    "API.NO_RESOURCE": 404,
    "API.METHOD": 405,
    "API.BODY": 400,
    "API.KEY": 400,
    "API.CROSS_SITE": 403,
    "API.TOO_SLOW": 408,
    "API.HOST": 421,
    "API.TOO_LARGE": 413,
    "API.CONTENT_TYPE": 415,
    "SERVE.NO_PAGE": 404,
    "SERVE.NO_REQUEST": 404,
    "QUARANTINE.NONE": 404,
    "SERVE.NO_PLAN": 404,
    "SERVE.PLAN_REJECTED": 409,
    "SERVE.READ_ONLY": 403,
    "SERVE.FORM": 400,
    "SERVE.FORM_TOKEN": 403,
    "SERVE.NOT_RUNNING": 409,
    "SERVE.OTHER_HOST": 409,
    "SERVE.QUEUE_FULL": 409,
    "SERVE.CONTINUOUS": 409,
    "SERVE.QUERIES_BUSY": 429,
    "SQL.TIMEOUT": 422,
    "SQL.FAILED": 422,
    "SCHEDULE.UNKNOWN": 404,
    "API.WHICH_PIPELINE": 404,
    "MCP.NOT_INSTALLED": 503,
    "TRACE.NO_UPDATE": 404,
    "CHECKPOINTS.UNKNOWN": 404,
}
_UNAVAILABLE, _WRONG = 503, 422


def status_of(error: PipelineError) -> int:
    """The status of an error."""
    # What was asked is right, and the storage cannot answer now; or what was asked is wrong.
    other = _WRONG if error.condition.kind is ErrorKind.PROJECT else _UNAVAILABLE
    return _STATUSES.get(error.code, other)


def failure(error: PipelineError | Problems, redact: Callable[[str], str] = str) -> Response:
    """The answer for an error.

    Args:
        error: what is wrong.
        redact: removes secrets from a text.
    """
    problems = error if isinstance(error, Problems) else Problems([error])
    return json_answer(_redacted(problems.to_json(), redact), status_of(problems.errors[0]))


def is_for_programs(path: str) -> bool:
    """Whether a path belongs to the API, to assistants or to Prometheus, which get errors as JSON."""
    return path.startswith(("/api/", "/mcp")) or path == METRICS_PATH


def refusal(error: HTTPException, method: str, path: str) -> PipelineError:
    """The error for a status: of a path that does not exist, of a request that the guard refuses, and others."""
    match error.status_code:
        case 403:
            return PipelineError("API.CROSS_SITE")
        case 421:
            return PipelineError("API.HOST")
        case 405:
            return PipelineError("API.METHOD", method=method, path=path)
        case 408:
            return PipelineError("API.TOO_SLOW")
        case 413:
            return PipelineError("API.TOO_LARGE")
        case _:
            return PipelineError("API.NO_RESOURCE", path=path)


def _redacted(value: object, redact: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _redacted(item, redact) for name, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list) else value

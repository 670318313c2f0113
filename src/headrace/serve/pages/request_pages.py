"""Requests of users: what came of each, as a message on the page that sent it, and as pages of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import PipelineError
from headrace.metrics.dataset_health import Health
from headrace.project.requests.request import Request, RequestState
from headrace.project.requests.request_file import stored_requests
from headrace.project.requests.request_results import result_of
from headrace.serve.pages.facts import error_facts
from headrace.serve.pages.paging import part_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_EACH_PART = 50
_INFO = "info"
# What was asked for, by the verb.
_NAMES: Mapping[str, str] = {
    "run": "Run an update",
    "validate": "Check the project",
    "plan": "Make a plan",
    "approve": "Approve a plan",
    "reject": "Reject a plan",
    "apply": "Apply a plan",
    "rollback": "Roll a plan back",
    "maintain": "Maintain tables",
    "quarantine replay": "Replay quarantined rows",
    "savepoint create": "Create a savepoint",
    "savepoint restore": "Restore a savepoint",
    "savepoint drop": "Delete a savepoint",
    "schedules pause": "Pause a schedule",
    "schedules resume": "Resume a schedule",
    "alerts ack": "Acknowledge an alert",
    "alerts silence": "Silence an alert",
    "stop": "Stop an update",
    "cancel": "Stop a request",
}
_DRY_RUN, _END = "--dry-run", "--"
# The fields of forms by options; those without an option have what follows the options.
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "quarantine replay": {"--rule": "rules", "--set": "set", _END: "dataset"},
    "savepoint restore": {"--dataset": "datasets", _END: "savepoint"},
    "maintain": {"--only": "only", _END: "datasets"},
}
_STATES: Mapping[RequestState, tuple[str, str]] = {
    RequestState.WAITING: (_INFO, "It waits for its turn."),
    RequestState.RUNNING: (_INFO, "It runs."),
    RequestState.COMPLETED: (Health.OK.value, "It is done."),
    RequestState.FAILED: (Health.BAD.value, "It failed."),
    RequestState.CANCELED: (Health.UNKNOWN.value, "It was stopped."),
    RequestState.EXPIRED: (Health.WARN.value, "It waited for more than a day, and was not done."),
    RequestState.LOST: (Health.WARN.value, "Nobody saw how it ended: its process is gone."),
}


def requests_page(pipeline: ServedPipeline, number: int = 1) -> Page:
    """The requests of the last days, the newest first; *number* is the part of the list that is shown.

    Raises:
        PipelineError: SERVE.REQUESTS_UNREADABLE, SERVE.STORAGE.
    """
    part, paging = part_of(list(_stored(pipeline).values())[::-1], number, _EACH_PART)
    document = {"name": pipeline.name, "paging": paging, "requests": [request_facts(one) for one in part]}
    return Page("requests.html", f"Requests: {pipeline.name}", document)


def request_page(pipeline: ServedPipeline, request_id: str) -> Page:
    """A request, and what its command printed.

    Raises:
        PipelineError: SERVE.NO_REQUEST, SERVE.REQUESTS_UNREADABLE, SERVE.STORAGE.
    """
    report = _report(pipeline, request_id)
    document = {"name": pipeline.name, **report, **result_facts(report)}
    return Page("request.html", document["what"], document)


def notice_of(pipeline: ServedPipeline, request_id: str) -> dict[str, Any] | None:
    """What came of a request, for the page that sent it; None if it is unknown, or cannot be read."""
    try:
        return _report(pipeline, request_id)
    except PipelineError:
        return None


def request_facts(request: Request) -> dict[str, Any]:
    """A request, with its state as a sentence."""
    name = _NAMES.get(request.action.verb, request.action.verb)
    mark, sentence = _STATES[request.state]
    return {
        **request.to_json(),
        "what": f"{name}: dry run" if _DRY_RUN in request.action.arguments else name,
        "mark": mark,
        "sentence": sentence,
        "is_pending": not request.state.has_ended,
        "can_be_stopped": not (request.state.has_ended or request.is_stopping),
    }


def result_facts(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a dry run found: its kind, the actions of a maintenance, and the fields of the form that does it.

    A result of another shape, which another version may have printed, has no kind, and is shown as it is.
    """
    result, arguments, verb = report["result"], report["arguments"], report["verb"]
    is_dry_run = _DRY_RUN in arguments and report["error"] is None
    again = _form_values(verb, arguments)
    nothing: dict[str, Any] = {"kind": None, "actions": [], "again": again}
    if not is_dry_run:
        return nothing
    if verb == "maintain":
        is_known = isinstance(result, list) and all(_has(one, "table", "task", "state", "reason") for one in result)
        return {**nothing, "kind": "maintenance preview", "actions": result} if is_known else nothing
    kind, names = {
        "quarantine replay": ("replay preview", ("rows", "passing", "failing", "dataset", "expectations")),
        "savepoint restore": ("restore preview", ("savepoint", "tables", "flows", "losses")),
    }.get(verb, (None, ()))
    return {**nothing, "kind": kind} if kind and _has(result, *names) else nothing


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, Mapping) and all(name in value for name in names)


def _form_values(verb: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The fields of the form that asks for the same without a dry run, by the words of the command line."""
    words = arguments.index(_END) if _END in arguments else len(arguments)
    names = _FIELDS.get(verb, {})
    found: dict[str, Any] = {}
    for word in arguments[:words]:
        option, equals, value = word.partition("=")
        if option in names:
            found.setdefault(names[option], []).append(value if equals else "true")
    rest = list(arguments[words + 1 :])
    if _END in names and rest:
        found[names[_END]] = rest if verb == "maintain" else rest[0]
    return found


def _report(pipeline: ServedPipeline, request_id: str) -> dict[str, Any]:
    known = _stored(pipeline)
    found = known.get(request_id)
    if found is None:
        raise PipelineError("SERVE.NO_REQUEST", id=request_id)
    result = result_of(pipeline.settings, found, known)
    printed = result.get("error") if isinstance(result, Mapping) else None
    error = error_facts(printed) if isinstance(printed, Mapping) else None
    if error is None and isinstance(result, Mapping) and result.get("problems"):
        error = error_facts(result["problems"][0])
    if error is None and (found.code or (found.message and found.state is RequestState.FAILED)):
        error = {"code": found.code, "message": found.message, "detail": None, "hint": None, "location": None}
    return {**request_facts(found), "error": error, "result": result}


def _stored(pipeline: ServedPipeline) -> Mapping[str, Request]:
    try:
        return stored_requests(pipeline.settings)
    except OSError as error:
        raise PipelineError("SERVE.STORAGE", reason=error.strerror or type(error).__name__) from error

"""The table of the API's routes: where each is, who may use it, what it takes and what it returns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.serve.api.schemas import Schema
from headrace.serve.roles import Role

PREFIX = "/api/v1"
_PARAMETER = re.compile(r"\{(\w+)\}")
# Names of everything else may have any character.
_PLAIN = ("pipeline",)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query or a header.

    Attributes:
        name: of the parameter.
        description: what it does.
        schema: of its value.
        place: ``query`` or ``header``.
    """

    name: str
    description: str
    schema: Schema
    place: str = "query"


@dataclass(frozen=True)
class ApiRoute:
    """A route of the API.

    Attributes:
        name: of the operation; the key of the function that answers.
        method: of HTTP.
        path: below the prefix; names in braces are parameters.
        role: who may use it.
        summary: what it does, in one line.
        answer: the name of the schema of its answer.
        parameters: of the query, and headers.
    """

    name: str
    method: str
    path: str
    role: Role
    summary: str
    answer: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def pattern(self) -> str:
        """The path as the router has it: names of datasets and flows may have slashes."""
        return PREFIX + _PARAMETER.sub(lambda one: one[0] if one[1] in _PLAIN else f"{{{one[1]}:path}}", self.path)


_P = "/pipelines/{pipeline}"
_FOCUS = (
    Parameter("focus", "Show only this dataset or source, and what is near it.", {"type": "string"}),
    Parameter("hops", "How near, in edges.", {"type": "integer", "minimum": 0, "default": 1}),
)
_AFTER = (
    Parameter("after", "Only events after the one with this `sequence`.", {"type": "integer", "minimum": 0}),
    Parameter(
        "Accept",
        "With `text/event-stream`, events are sent as they are stored.",
        {"type": "string"},
        "header",
    ),
)

ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute("openapi", "GET", "/openapi.json", Role.VIEWER, "This document", "Document"),
    ApiRoute("me", "GET", "/me", Role.VIEWER, "Whose token it is, and what it may do", "Me"),
    ApiRoute("pipelines", "GET", "/pipelines", Role.VIEWER, "All pipelines, with their health", "Pipelines"),
    ApiRoute("pipeline", "GET", _P, Role.VIEWER, "A pipeline, and what needs attention", "Pipeline"),
    ApiRoute("graph", "GET", f"{_P}/graph", Role.VIEWER, "What reads what, with health and lag", "Graph", _FOCUS),
    ApiRoute("dataset", "GET", f"{_P}/datasets/{{dataset}}", Role.VIEWER, "A dataset, without its rows", "Dataset"),
    ApiRoute("flow", "GET", f"{_P}/flows/{{flow}}", Role.VIEWER, "A flow and its newest batches", "Flow"),
    ApiRoute("updates", "GET", f"{_P}/updates", Role.VIEWER, "The newest updates", "Updates"),
    ApiRoute("update", "GET", f"{_P}/updates/{{update}}", Role.VIEWER, "An update and its flows", "UpdateReport"),
    ApiRoute("doctor", "GET", f"{_P}/doctor", Role.VIEWER, "What is wrong or at risk", "Diagnosis"),
    ApiRoute("events", "GET", f"{_P}/events", Role.VIEWER, "The newest 1,000 events", "Events", _AFTER),
    ApiRoute("schedules", "GET", f"{_P}/schedules", Role.VIEWER, "The schedules, and who runs them", "Schedules"),
    ApiRoute("alerts", "GET", f"{_P}/alerts", Role.VIEWER, "The alerts of the last check", "Alerts"),
    ApiRoute("quarantine", "GET", f"{_P}/quarantine", Role.VIEWER, "How many rows are in quarantine", "Quarantines"),
    ApiRoute("savepoints", "GET", f"{_P}/savepoints", Role.VIEWER, "The savepoints, oldest first", "Savepoints"),
)

"""The OpenAPI document of the API, made from its table of routes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.model.version import __version__
from headrace.serve.api.examples import EXAMPLES
from headrace.serve.api.routes import ROUTES, ApiRoute, Parameter
from headrace.serve.api.schemas import schemas

_EVENTS = "text/event-stream"
_ERRORS = {
    "401": "The token is missing or wrong",
    "403": "The role may not do this",
    "404": "No such pipeline, dataset, flow or update",
    "503": "The storage cannot be read now",
}
_QUERY_ERRORS = {"422": "A parameter is wrong"}
_WRITE_ERRORS = {
    "400": "The body is not a JSON object, or the key is wrong",
    "409": "The queue is full, or what is to be stopped does not run",
    "413": "The body is larger than 1 MiB",
    "415": "The body is not application/json",
    "422": "A field is wrong, or the key is that of another request",
}


def openapi(routes: Iterable[ApiRoute] = ROUTES) -> dict[str, Any]:
    """The document, in version 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.url, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": __version__,
            "description": "Pipelines of streaming tables: their state, and what can be done with them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(schemas()),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "hr_..."}},
        },
    }


def openapi_text() -> str:
    """The document as a file."""
    return json.dumps(openapi(), indent=2, ensure_ascii=False) + "\n"


def _operation(route: ApiRoute) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": _ref(route.answer)}
    if route.name in EXAMPLES:
        media["example"] = EXAMPLES[route.name]
    content: dict[str, Any] = {route.content_type.partition(";")[0]: media}
    if route.name == "events":
        content[_EVENTS] = {"schema": {"type": "string"}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.path_parameters
    ]
    parameters += map(_parameter, route.parameters)
    is_stored = route.writes and not route.waits
    answer = {"description": "The request is stored" if is_stored else "The answer", "content": content}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Needs the role `{route.role.value}`.",
        "parameters": parameters,
        "responses": {"202" if is_stored else "200": answer, **_failures(_ERRORS)},
    }
    if any(one.place == "query" for one in route.parameters):
        found["responses"] |= _failures(_QUERY_ERRORS)
    if not route.writes:
        return found
    taken = {field.name: field.schema for field in route.fields}
    schema = {"type": "object", "properties": taken, "additionalProperties": False}
    found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    found["responses"] |= _failures(_WRITE_ERRORS)
    return found


def _parameter(one: Parameter) -> dict[str, Any]:
    found = {"name": one.name, "in": one.place, "description": one.description, "schema": one.schema}
    return found if one.example is None else {**found, "example": one.example}


def _failures(texts: Mapping[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref("Failure")}}
    return {status: {"description": text, "content": content} for status, text in texts.items()}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}

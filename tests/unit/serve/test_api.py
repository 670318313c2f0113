"""The API is what its table says: routes, roles, and the shapes of its answers."""

from __future__ import annotations

import fastjsonschema
import pytest

from headrace.serve.api.examples import EXAMPLES
from headrace.serve.api.openapi import openapi
from headrace.serve.api.reading import READERS
from headrace.serve.api.routes import METRICS_PATH, ROUTES

P = "/api/v1/pipelines/shop"
READ = {
    "openapi": "/api/v1/openapi.json",
    "me": "/api/v1/me",
    "pipelines": "/api/v1/pipelines",
    "pipeline": P,
    "graph": f"{P}/graph?focus=orders&hops=2",
    "dataset": f"{P}/datasets/orders",
    "rows": f"{P}/datasets/orders/rows?columns=id&where=id&is=<>&value=7&limit=2",
    "diff": f"{P}/datasets/orders/diff?from=0&to=2&key=id",
    "history": f"{P}/datasets/orders/history?limit=2",
    "schema": f"{P}/datasets/orders/schema",
    "expectations": f"{P}/datasets/orders/expectations?since=2026-11-20T00:00:00Z",
    "flow": f"{P}/flows/orders",
    "batches": f"{P}/flows/orders/batches?limit=2",
    "state": f"{P}/flows/orders/state",
    "updates": f"{P}/updates",
    "update": f"{P}/updates/bbbb2222-0000",
    "doctor": f"{P}/doctor",
    "events": f"{P}/events",
    "schedules": f"{P}/schedules",
    "alerts": f"{P}/alerts",
    "all_alerts": "/api/v1/alerts",
    "quarantine": f"{P}/quarantine",
    "savepoints": f"{P}/savepoints",
    "plans": f"{P}/plans",
    "requests": f"{P}/requests",
}
# What this storage does not have, and what is no JSON; other tests call it.
LATER = {"request", "schedule", "quarantined_rows", "checkpoint", "metrics"}
DOCUMENT = openapi()


def matches(name, value):
    """Fails unless a value has the shape of a schema of the document."""
    root = {"allOf": [{"$ref": f"#/components/schemas/{name}"}], "components": DOCUMENT["components"]}
    fastjsonschema.compile(root, use_default=False)(value)


def mounted(app):
    """The routes of the API in the application, below its guard and its door."""
    while not hasattr(app, "routes"):
        app = app._app
    return {
        (route.path, method)
        for route in app.routes
        for method in route.methods - {"HEAD"}
        if "/api/" in route.path or route.path == METRICS_PATH
    }


def test_the_table_of_routes_is_what_is_mounted_and_documented(browser):
    assert mounted(browser.app) == {(route.pattern, route.method) for route in ROUTES}
    documented = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert documented == {(route.url, route.method) for route in ROUTES}
    assert {route.name for route in ROUTES if not route.writes} == {*READ, *LATER}
    assert set(READERS) < {*READ, *LATER}
    assert len({route.name for route in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.name in READ], ids=lambda route: route.name)
def test_answers_have_the_shape_that_is_documented(browser, route):
    answer = browser.call(READ[route.name])

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    matches(route.answer, answer.json)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.name in EXAMPLES], ids=lambda route: route.name)
def test_examples_have_the_shape_that_is_documented(route):
    matches(route.answer, EXAMPLES[route.name])


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        (f"{P}/datasets/no", "GET", 404, "SERVE.NO_PAGE"),
        (f"{P}/updates/no", "GET", 404, "TRACE.NO_UPDATE"),
        (f"{P}/updates?limit=501", "GET", 422, "API.FIELD"),
        (f"{P}/schedules/no", "GET", 404, "SCHEDULE.UNKNOWN"),
        ("/api/v1/pipelines/other/graph", "GET", 404, "SERVE.NO_PAGE"),
        ("/api/v1/nothing", "GET", 404, "API.NO_RESOURCE"),
        ("/api/v2/pipelines", "GET", 404, "API.NO_RESOURCE"),
        (f"{P}/graph", "POST", 405, "API.METHOD"),
    ],
)
def test_errors_have_a_code_and_a_hint(browser, path, method, status, code):
    answer = browser.call(path, method, sec_fetch_site="same-origin", content_type="application/json")

    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.json["error"]["hint"]
    matches("Failure", answer.json)


def test_a_stranger_learns_what_to_send(busy_shop, served):
    answer = served(busy_shop).call(P)

    assert (answer.status, answer.json["error"]["code"]) == (401, "API.UNAUTHORIZED")
    matches("Failure", answer.json)


def test_the_document_of_the_api_is_complete():
    """Each name that it refers to exists, and each operation says who may use it."""
    fastjsonschema.compile({"definitions": DOCUMENT["components"]["schemas"], "components": DOCUMENT["components"]})
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            assert operation["description"].startswith("Needs the role `")
            for answer in operation["responses"].values():
                (content,) = (one for kind, one in answer["content"].items() if kind != "text/event-stream")
                assert content["schema"]["$ref"].rpartition("/")[2] in DOCUMENT["components"]["schemas"]

"""The page of the server's API."""

from __future__ import annotations

from headrace.serve.api.routes import PREFIX, ROUTES, ApiRoute
from headrace.serve.roles import Role

_START = """\
# API of the server

[`headrace serve`](../how-to/serve.md) answers programs under `/api/v1`. [openapi.json](openapi.json), which the server has
at `/api/v1/openapi.json`, describes the same in the format of OpenAPI 3.1, with the shape of each answer.

    curl -H "Authorization: Bearer hr_3f9c21aa_..." http://127.0.0.1:8741/api/v1/pipelines

Answers are JSON. Later versions of Headrace may add fields and routes. Names in a path are encoded as in any URL: a flow
`a/b` is `a%2Fb`.

## Errors

An error has the form that `headrace --output json` prints: `error` has the first problem and `problems` all of them, each
with the `code` of [the list of errors](errors.md), a message and a hint.

| status | meaning |
|---|---|
| 400 | the body is not a JSON object, or the key is wrong |
| 401 | the token is missing or wrong |
| 403 | the role may not do this, or a page of another site has sent the request |
| 404, 405 | no such path, pipeline, dataset, flow or update; no such method |
| 408, 413, 415 | the body did not arrive in time, is larger than 1 MiB, or is not `application/json` |
| 409 | the queue is full, or what is to be stopped does not run |
| 421 | the server does not answer under this host name |
| 422 | a field is wrong, or the key is that of another request |
| 503 | the storage cannot be read now, or another server takes requests |

"""


_REQUESTS = """\
## Requests

A `POST` stores a request and answers 202 with its `id` and `url`; then it waits for its turn. `GET` of the `url` has its
`state` (`WAITING`, `RUNNING`, `COMPLETED`, `FAILED`, `CANCELED`, `EXPIRED`, `LOST`) and, at its end, the `result` that the
verb of the command line prints as JSON.

- **Send `Content-Type: application/json`**, with an object or nothing.
- **Choose the id yourself** with the header `Idempotency-Key`, and repeat the request with the same one if you got no answer:
  it is done once, and answered in the same way, also after a crash of the server. The same id with anything else is refused.
  Ids are kept for seven days, those of the last 500 requests; that of an update which ran as long as the event log.
- **Updates run one after another.** A request for an update waits for one that runs, whoever has started it. Requests that
  wait for the same are one update (`merged_into`). Up to 16 requests wait. After a day, a request expires.
- **What was asked is recorded before it is done**, as `user_action` in
  [`operations_log`](storage.md#the-event-log): the name of the token, the address, the verb and its arguments.
- **An update whose process was killed is started again**, after 5 seconds, and once more after a minute: it goes on where the
  last one stopped. Each start is an update of its own (`update_id`); the request stays the same. One that somebody stops is not
  started again.
- `LOST` is any other request whose process nobody has seen end, because the server was killed meanwhile.

`--accept-data-loss` and new tokens are for the command line alone. The expressions of `set` may have columns, literals, operators
and common functions of SQL; anything else is refused (`SERVE.EXPRESSION`). A restore without `dry_run` needs the role `admin`.

## Fields
"""


def _fields(route: ApiRoute) -> list[str]:
    rows = [f"| `{one.name}` | {one.kind.value} | {one.description} |" for one in route.fields]
    title = f"`{route.method} {PREFIX}{route.path}`"
    return [title, "", "| field | value | meaning |", "|---|---|---|", *rows, ""]


def api_page() -> str:
    """The expected text of docs/reference/api.md."""
    roles = [f"| `{role.value}` | {role.meaning} |" for role in Role]
    return "\n".join(
        [
            _START + "## Roles\n",
            "Each role may also do what those before it may.\n",
            "| role | what it may do |",
            "|---|---|",
            *roles,
            "",
            "## Routes\n",
            "| route | role | what it does |",
            "|---|---|---|",
            *map(_row, ROUTES),
            "",
            _REQUESTS,
            *(line for route in ROUTES if route.fields for line in _fields(route)),
        ]
    )


def _row(route: ApiRoute) -> str:
    return f"| `{route.method} {PREFIX}{route.path}` | {route.role.value} | {route.summary} |"

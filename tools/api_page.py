"""The page of the server's API."""

from __future__ import annotations

from headrace.serve.api.routes import ROUTES, ApiRoute, Parameter
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
| 422 | a field or a parameter is wrong, or the key is that of another request |
| 503 | the storage cannot be read now, or another server takes requests |

"""


_LISTS = """\
## Parts of long lists

Lists that may be long have the newest items first, and as many as `limit` says. `earlier` of an answer is the `before` of the next
part, and `null` at the end. The last part may be empty.

    curl -H "Authorization: Bearer hr_3f9c21aa_..." \\
      "http://127.0.0.1:8741/api/v1/pipelines/shop/flows/orders/batches?since=2026-11-29T00:00:00Z&limit=100"

    {
      "flow": "orders",
      "as_of": "2026-11-29T02:00:41Z",
      "batches": [{"epoch": 0, "batch_id": 411, "rows_written": 812, "duration_ms": 1400, "version": 412, ...}, ...],
      "earlier": 1795917640120310
    }

- **`history` of a dataset** has the commits of its table in the Delta log. `rows` are those that the batch wrote; `rows_added`,
  `files_added` and `bytes_added` are of new files. A commit that no batch has made, such as that of `OPTIMIZE`, has no `flow`, nor
  has one whose batch has left the event log.
- **`schema`** has the columns of now: `columns` as the newest update defined them, `table_columns` as they are in the table. `updates`
  has how their definition changed, `versions` how those of the table did. `limit` is the number of commits that are looked at.
- **`expectations`** has the counts of the batches that were recorded in a part of the event log, oldest first.
- **`checkpoint`** is what `headrace checkpoints show` prints, and **`state`** the size of each state store, without rows. The rows of
  state need a session: `headrace state`.
- **`graph?update=ID`** has the definitions of a past update, and the states of its flows at its end. What the storage had then is not
  recorded: its rates, lag and rows are `null`, and health is `unknown`.

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
    title = f"`{route.method} {route.url}`"
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
            "## Parameters\n",
            "| route | parameter | value | meaning |",
            "|---|---|---|---|",
            *(line for route in ROUTES if not route.writes for line in _parameters(route)),
            "",
            _LISTS + _REQUESTS,
            *(line for route in ROUTES if route.fields for line in _fields(route)),
        ]
    )


def _parameters(route: ApiRoute) -> list[str]:
    return [
        f"| `{route.url}` | `{one.name}`{' (header)' if one.place == 'header' else ''} | {_value(one)} | {one.description} |"
        for one in route.parameters
    ]


def _value(one: Parameter) -> str:
    """What a value of a parameter is, such as ``1 to 100, by default 20``."""
    schema = one.schema
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}, by default {schema['default']}"
    if schema["type"] == "integer":
        return f"number, by default {schema['default']}" if "default" in schema else "number"
    if schema["type"] == "array":
        return ", ".join(f"`{word}`" for word in schema["items"].get("enum", ())) or "text"
    return "time" if schema.get("format") == "date-time" else "text"


def _row(route: ApiRoute) -> str:
    return f"| `{route.method} {route.url}` | {route.role.value} | {route.summary} |"

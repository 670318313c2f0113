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
| 401 | the token is missing or wrong |
| 403 | the role may not do this, or a page of another site has sent the request |
| 404, 405 | no such path, pipeline, dataset, flow or update; no such method |
| 421 | the server does not answer under this host name |
| 422 | what was asked is wrong |
| 503 | the storage cannot be read now |

"""


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
        ]
    )


def _row(route: ApiRoute) -> str:
    return f"| `{route.method} {PREFIX}{route.path}` | {route.role.value} | {route.summary} |"

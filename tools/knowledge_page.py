"""The reference page of the knowledge base, generated from its pages."""

from __future__ import annotations

from itertools import groupby

from headrace.assistant.knowledge.generated import ERRORS, RULES
from headrace.assistant.knowledge.library import library

_FOLDER = "../../src/headrace/assistant/knowledge/pages"
_INTRODUCTION = """\
# Knowledge base and search

Short pages about streaming tables: guides, troubleshooting, operation, and a page for each error code and lint rule. They
are part of the package, so you can read them on a server without a browser or a network, in any folder:

    headrace docs search "the table is hours behind"
    headrace docs get troubleshooting backlog-grows
    headrace docs get errors FLOW.CHECKPOINT_TORN
    headrace docs get lint no-watermark

Describe what you see in your own words, or paste an error. `--category guides` searches one category, `--limit 10` shows more
pages. On a terminal, a page is formatted for its width; in a pipe, you get Markdown. With `--output json`:

| command | result |
| --- | --- |
| `docs search` | a list of `category`, `name`, `title`, `snippet`, `score`, the best page first |
| `docs get` | an object with `category`, `name`, `title`, `body` (Markdown), `related` (`category/name`), `sources` |

A score only compares the pages of one search. The order of pages never changes for the same text and version.

The examples read the tables `orders` (`order_id`, `customer`, `product`, `shop`, `quantity`, `price`, `amount`, `status`,
`placed_at`, `updated_at`), `payments`, `clicks`, `impressions`, `readings`, `customers` and `customer_changes`. Replace them by
your own. Tests load and check every example.

How it searches: words are reduced to stems, and phrases with the same meaning (`synonyms.toml`) count as one concept. Pages
are ranked by BM25, and by their title, alias or symptom that is most like the text. There is no language model.
"""


def knowledge_page() -> str:
    """The expected text of docs/reference/knowledge-base.md."""
    parts = [_INTRODUCTION]
    written = [page for page in library().pages if page.category not in (ERRORS, RULES)]
    for category, pages in groupby(written, key=lambda page: page.category):
        rows = [f"| [{page.name}]({_FOLDER}/{page.path}.md) | {page.title} |\n" for page in pages]
        parts.append(f"## {category}\n\n| name | page |\n| --- | --- |\n{''.join(rows)}")
    parts.append(
        f"## {ERRORS} and {RULES}\n\n"
        "The names are [error codes](errors.md) and [lint rules](lint.md), such as `errors LEASE.HELD` and "
        "`lint shared-checkpoint`.\n"
    )
    return "\n".join(parts)

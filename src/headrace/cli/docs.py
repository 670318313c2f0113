"""The verbs of the knowledge base: docs get and search. They need no project."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from headrace.assistant.knowledge.library import DEFAULT_LIMIT, library
from headrace.assistant.knowledge.page import Hit, Page
from headrace.cli.invocation import invocation_of

app = typer.Typer(help="Read and search the knowledge base.", no_args_is_help=False, add_completion=False)


@app.command("get")
def get(
    context: typer.Context,
    category: Annotated[str, typer.Argument(metavar="CATEGORY", help="Such as guides, troubleshooting or errors.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A page, an error code or a lint rule.")],
) -> None:
    """Show a page of the knowledge base."""
    invocation = invocation_of(context)
    page = library().get(category, name)
    text = _markdown(page)
    if invocation.width is not None:
        # Loaded by name: the parser of Markdown takes as long as everything else, and only a terminal needs it.
        text = import_module("headrace.cli.markdown_text").rendered(text, invocation.width)
    invocation.result(text, page.to_json(), folds=False)


@app.command("search")
def search(
    context: typer.Context,
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="A question, a symptom or an error, in your own words.")
    ],
    category: Annotated[
        str | None, typer.Option("--category", metavar="CATEGORY", help="Search only these pages.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number of pages.")] = DEFAULT_LIMIT,
) -> None:
    """Find the pages of the knowledge base that answer a question."""
    invocation = invocation_of(context)
    found = library().search(" ".join(text), category, limit)
    invocation.result("\n\n".join(map(_hit_text, found)) or "no page found", [hit.to_json() for hit in found])


def _markdown(page: Page) -> str:
    parts = [f"# {page.title}", page.body.rstrip("\n")]
    if page.related:
        links = "\n".join(f"headrace docs get {' '.join(path.split('/'))}" for path in page.related)
        parts.append(f"## Related\n\n```bash\n{links}\n```")
    if page.sources:
        parts.append("\n".join(("## Sources\n", *(f"- {source}" for source in page.sources))))
    return "\n\n".join(parts)


def _hit_text(hit: Hit) -> str:
    page = hit.page
    return f"{page.title}\n  {hit.snippet}\n  `headrace docs get {page.category} {page.name}`"

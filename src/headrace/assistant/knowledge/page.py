"""A page of the knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Page:
    """A page with what is known about it.

    Attributes:
        category: the folder, such as ``troubleshooting``.
        name: unique in the category.
        title: one line.
        body: Markdown, without the title.
        aliases: other names of the subject.
        symptoms: what people say or search for who need this page, in their own words.
        checks: names of checks whose findings lead here.
        errors: error codes that it explains.
        rules: lint rules that it explains.
        related: other pages, as ``category/name``.
        sources: where the behaviour is documented.
    """

    category: str
    name: str
    title: str
    body: str
    aliases: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The page as others refer to it: ``category/name``."""
        return f"{self.category}/{self.name}"

    def to_json(self) -> dict[str, Any]:
        """The page as a JSON object."""
        return {
            "category": self.category,
            "name": self.name,
            "title": self.title,
            "body": self.body,
            "related": list(self.related),
            "sources": list(self.sources),
        }


@dataclass(frozen=True)
class Hit:
    """A page that a search found.

    Attributes:
        page: the page.
        snippet: the line of the page that fits the search best, without Markdown.
        score: a number that is greater for a better page; it only compares the pages of one search.
    """

    page: Page
    snippet: str
    score: float

    def to_json(self) -> dict[str, Any]:
        """The hit as a JSON object."""
        return {
            "category": self.page.category,
            "name": self.page.name,
            "title": self.page.title,
            "snippet": self.snippet,
            "score": self.score,
        }

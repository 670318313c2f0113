"""All pages of the knowledge base, by name and by search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from importlib.resources import files

from headrace.assistant.knowledge.generated import ERRORS, RULES, error_pages, rule_pages
from headrace.assistant.knowledge.page import Hit, Page
from headrace.assistant.knowledge.page_files import read_pages
from headrace.assistant.knowledge.ranking import Index
from headrace.errors import PipelineError

DEFAULT_LIMIT = 5
# A page that was written for a question is better than a message that has its words.
_WEIGHTS = {ERRORS: 0.5, RULES: 0.6}
_NEAR = 5
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"[`*#>|]|\]\([^)]*\)|(?<!\w)\[|^ *-+ *$|-{3,}", re.MULTILINE)
_LONGEST_SNIPPET = 160


class Library:
    """Pages by name and by search.

    Args:
        pages: every page; their paths differ.
    """

    def __init__(self, pages: Iterable[Page]) -> None:
        self.pages = tuple(sorted(pages, key=lambda page: (page.category in _WEIGHTS, page.category, page.name)))

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of all categories."""
        return tuple(dict.fromkeys(page.category for page in self.pages))

    def get(self, category: str, name: str) -> Page:
        """The page of a name; upper and lower case do not matter.

        Raises:
            PipelineError: DOCS.UNKNOWN_CATEGORY or DOCS.UNKNOWN_PAGE, which names the nearest pages.
        """
        members = self._members(category)
        found = next((page for page in members if page.name.casefold() == name.casefold()), None)
        if found is None:
            nearest = "\n".join(
                f"headrace docs get {page.category} {page.name}" for page in self._nearest(category, name)
            )
            raise PipelineError("DOCS.UNKNOWN_PAGE", category=category, name=name, nearest=nearest)
        return found

    def search(self, text: str, category: str | None = None, limit: int = DEFAULT_LIMIT) -> tuple[Hit, ...]:
        """The pages that fit a text best, the best first; the order of equal scores never changes.

        Args:
            text: a question, an error message, a symptom, or a name.
            category: search only its pages.
            limit: the greatest number of pages.

        Raises:
            PipelineError: DOCS.UNKNOWN_CATEGORY.
        """
        if category is not None:
            category = self._members(category)[0].category
        ranked = [found for found in self._index.search(text) if category in (None, found[0].category)]
        return tuple(Hit(page, self._snippet(page, text), score) for page, score in ranked[:limit])

    @cached_property
    def _index(self) -> Index:
        return Index(self.pages, _WEIGHTS)

    def _members(self, category: str) -> Sequence[Page]:
        members = [page for page in self.pages if page.category == category.casefold()]
        if not members:
            raise PipelineError("DOCS.UNKNOWN_CATEGORY", category=category, known=", ".join(self.categories))
        return members

    def _nearest(self, category: str, name: str) -> list[Page]:
        """The pages that a name probably means: those of the category first."""
        found = [page for page, _ in self._index.search(name)[: 2 * _NEAR]]
        return sorted(found, key=lambda page: page.category != category.casefold())[:_NEAR]

    def _snippet(self, page: Page, text: str) -> str:
        lines = list(_plain_lines(page.body)) or [page.title]
        best = self._index.best_line(text, lines)
        return best if len(best) <= _LONGEST_SNIPPET else best[: _LONGEST_SNIPPET - 1].rsplit(" ", 1)[0] + "…"


def _plain_lines(body: str) -> Iterator[str]:
    """The paragraphs and rows of a text, without code and marks."""
    for paragraph in re.split(r"\n\n|\n(?=[-|])", _BLOCK.sub("", body)):
        if not paragraph.lstrip().startswith("#") and (plain := " ".join(_MARKS.sub(" ", paragraph).split())):
            yield plain


@cache
def library() -> Library:
    """The pages that the package has."""
    written = tuple(read_pages(files("headrace.assistant.knowledge").joinpath("pages")))
    return Library((*written, *error_pages(written), *rule_pages(written)))

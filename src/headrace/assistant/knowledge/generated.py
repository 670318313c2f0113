"""The pages of error codes and lint rules, made from the texts that the program itself shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from headrace.assistant.knowledge.page import Page
from headrace.errors import Condition, conditions
from headrace.lint.rule_texts import rule_texts

ERRORS = "errors"
RULES = "lint"
# A detail that is one parameter says nothing without its value.
_PARAMETER = re.compile(r"\{\w+\}\.?")
_BRACES = re.compile(r"\{(\w+)\}")


def error_pages(pages: Iterable[Page]) -> Iterator[Page]:
    """A page for each error code; related are the pages that explain it."""
    explained = _explaining((page, page.errors) for page in pages)
    for condition in conditions().values():
        yield _error_page(condition, explained.get(condition.code, ()))


def rule_pages(pages: Iterable[Page]) -> Iterator[Page]:
    """A page for each lint rule; related are the pages that explain it."""
    explained = _explaining((page, page.rules) for page in pages)
    for rule, texts in rule_texts().items():
        body = (
            f"{texts['why']}\n\n## Fix\n\n```python\n{texts['fix'].strip()}\n```\n\n"
            f"## Not reported\n\n{texts['exceptions']}\n\n"
            f"## Fails\n\n```python\n{texts['failing'].strip()}\n```\n\n"
            f"## Works\n\n```python\n{texts['passing'].strip()}\n```\n\n"
            f"## Next\n\n```bash\nheadrace lint --select {rule}\n```\n"
        )
        related = explained.get(rule, ())
        yield Page(RULES, rule, texts["title"], body, related=related, sources=("docs/reference/lint.md",))


def _error_page(condition: Condition, related: tuple[str, ...]) -> Page:
    details = (text for text in (condition.detail, condition.meaning) if text and not _PARAMETER.fullmatch(text))
    body = "\n\n".join((*details, f"## What to do\n\n{condition.plain_hint}"))
    title = f"{condition.code}: {_plain(condition.message)}"
    return Page(
        ERRORS,
        condition.code,
        title,
        f"{_plain(body)}\n",
        aliases=(condition.code,),
        related=related,
        sources=("docs/reference/errors.md",),
    )


def _plain(text: str) -> str:
    """The text with names in place of parameters."""
    return _BRACES.sub(lambda found: found[1].upper(), text)


def _explaining(pages: Iterable[tuple[Page, tuple[str, ...]]]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for page, names in pages:
        for name in names:
            found[name] = (*found.get(name, ()), page.path)
    return found

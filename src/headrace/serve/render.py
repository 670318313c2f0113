"""A page as HTML or as JSON: both show one document, without secrets."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from headrace.model.version import __version__
from headrace.project.development.board import DevBoard
from headrace.serve import formats
from headrace.serve.navigation import SECTIONS
from headrace.serve.offers import Offers


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        template: its file.
        title: what the window shows.
        document: what the page shows, as JSON.
        pictures: coordinates of what it draws, which are in the HTML alone.
        status: of the answer.
    """

    template: str
    title: str
    document: Mapping[str, Any]
    pictures: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Frame:
    """What is around the pages of a pipeline: its name, where its pages are, who looks, and what came of a request.

    Attributes:
        slug: the pipeline's name in URLs; empty for pages of no pipeline.
        name: of the pipeline.
        section: of the page.
        redact: removes secrets from a text.
        counts: the numbers of open things, by the name of a section.
        offers: the forms that the page may show; None for a page without forms.
        offers_of: the forms for each pipeline of a list, by its name in URLs.
        notice: the request that was sent from the page, and what came of it.
        is_read_only: the server takes no requests.
    """

    slug: str
    name: str
    section: str = ""
    redact: Callable[[str], str] = str
    counts: Mapping[str, int] = field(default_factory=dict)
    offers: Offers | None = None
    notice: Mapping[str, Any] | None = None
    offers_of: Mapping[str, Offers] = field(default_factory=dict)
    is_read_only: bool = False


class Renderer:
    """Makes answers of pages.

    Args:
        now: the time in seconds since 1970.
        boards: what is known of projects that are being developed, by the pipeline's name in URLs.
    """

    def __init__(self, now: Callable[[], float], boards: Mapping[str, DevBoard] = MappingProxyType({})) -> None:
        self._now = now
        self._boards = boards

    def html(self, page: Page, frame: Frame | None = None, path: str = "") -> Response:
        """The page as HTML.

        Args:
            page: the page.
            frame: of the pipeline; None for pages of no pipeline.
            path: where it is, for the link to its JSON; empty for a page without JSON.
        """
        # A page has the same names and words many times.
        redact = str if frame is None else cache(frame.redact)
        board = None if frame is None else self._boards.get(frame.slug)
        text = (
            _templates()
            .get_template(page.template)
            .render(
                page=_redacted(page.document, redact),
                pictures=_redacted(page.pictures, redact),
                title=redact(page.title),
                frame=frame,
                notice=None if frame is None else _redacted(frame.notice, redact),
                path=path,
                now=self._now(),
                dev=None if board is None else _redacted(board.state.to_json(), redact),
            )
        )
        return HTMLResponse(text, page.status)

    def json(self, page: Page, frame: Frame | None = None) -> Response:
        """The document of the page."""
        redact = str if frame is None else frame.redact
        return json_answer(_redacted(page.document, redact), page.status)


@cache
def _templates() -> Environment:
    """The templates, each of which is compiled when it is first used: that takes longer than a page."""
    found = Environment(
        loader=PackageLoader("headrace.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "duration": formats.duration,
        "count": formats.count,
        "rate": formats.rate,
        "bytes": formats.size,
        "plural": formats.plural,
        "moment": _moment,
        "ago": _ago,
        "part": path_part,
        "quoted": _quoted,
    }
    found.globals |= {"share": formats.share, "version": __version__, "sections": SECTIONS}
    return found


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    # Text that browsers could take for HTML is escaped, although they are told that it is none.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Response(text.encode("utf-8", "replace") + b"\n", status, media_type="application/json")


def path_part(name: str) -> str:
    """A name as the last part of a path."""
    # Browsers would take parts of dots away.
    return quote(name, safe="").replace(".", "%2E") if set(name) <= {"."} else quote(name, safe="")


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list | tuple) else value


@pass_context
def _moment(context: Context, text: str | None) -> Markup | str:
    """A time in ISO 8601 as an element that shows how long ago it was when it is pointed at."""
    if text is None:
        return formats.NO_DATA
    machine = datetime.fromisoformat(text).isoformat()
    shown, title = formats.moment_text(text), formats.ago(text, context["now"])
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, title, shown)


def _quoted(words: Iterable[str]) -> list[str]:
    """The words of a command as a shell needs them."""
    return [shlex.quote(word) for word in words]


@pass_context
def _ago(context: Context, text: str) -> str:
    """How long ago a time in ISO 8601 was, or in how long it comes."""
    return formats.ago(text, context["now"])

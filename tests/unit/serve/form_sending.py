"""Finds the forms of a page, and sends them as a browser does."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin", "origin": "null"}


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.found.append(
                {"action": given["action"], "fields": {}, "is_disabled": False} if given.get("action") else {}
            )
        elif self.found and self.found[-1]:
            form = self.found[-1]
            if tag in ("input", "select", "textarea") and given.get("name"):
                if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                    form["fields"].setdefault(given["name"], given.get("value") or "")
            elif tag == "button" and "disabled" in given:
                form["is_disabled"] = True


def forms_of(html: str, operation: str) -> list[dict[str, Any]]:
    """The forms of a page that are for an operation: where each is sent to, its fields, whether it is disabled."""
    parser = _Forms()
    parser.feed(html)
    return [form for form in parser.found if form and form["action"].endswith(f"/forms/{operation}")]


def form_of(browser: Any, path: str, operation: str) -> dict[str, Any]:
    """The first form for an operation of the page at a path."""
    answer = browser.call(path)
    assert answer.status == 200, answer.text
    return forms_of(answer.text, operation)[0]


def send(browser: Any, form: dict[str, Any], more: Any = (), **headers: Any) -> Any:
    """Send a form, with other values of some fields, as a browser does from our own page; None leaves a header out."""
    fields = {**form["fields"], **dict(more)}
    return browser.call(form["action"], "POST", urlencode(fields, doseq=True).encode(), **{**FORM, **headers})

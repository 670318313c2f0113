"""Opens a page in the user's browser, without the token on a command line."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from html import escape
from pathlib import Path

_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Headrace</title>
<p><a href="{url}">Open the pages of the pipeline</a></p>
"""


def can_open_browser(environ: Mapping[str, str]) -> bool:
    """Whether a browser has a window: one in the terminal would take it over."""
    if sys.platform == "darwin":
        return True
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"))


def open_page(url: str, folder: Path) -> None:
    """Open a URL with a token.

    Args:
        url: the URL. Other users of the machine see command lines, so the browser gets a file that leads there.
        folder: for the file; only this user can read it.
    """
    file = folder / "open.html"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
        opened.write(_PAGE.format(url=escape(url, quote=True)))
    webbrowser.open(file.as_uri())

"""Debian's Chromium, which draws text from the same files in the same way on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.parts import CHROMIUM, FONTS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FLAGS = (
    *("--disable-lcd-text", "--font-render-hinting=none", "--force-color-profile=srgb", "--hide-scrollbars"),
    # A name that somebody else's server has given the address of this machine.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)
# Chromium's own sandbox needs rights that root and containers do not have; it opens nothing but our own pages.
_NO_SANDBOX = "--no-sandbox"
# There is no other font.
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{fonts}</dir>
<cachedir>{cache}</cachedir>
<selectfont>
<acceptfont><glob>{fonts}/DejaVuSans.ttf</glob><glob>{fonts}/DejaVuSans-Bold.ttf</glob></acceptfont>
<acceptfont><glob>{fonts}/DejaVuSansMono.ttf</glob><glob>{fonts}/DejaVuSansMono-Bold.ttf</glob></acceptfont>
<rejectfont><glob>*</glob></rejectfont>
</selectfont>
</fontconfig>
"""


@contextmanager
def running_chromium(folder: Path) -> Iterator[Browser]:
    """A browser without a window, until the end of the block.

    Args:
        folder: for its files.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - `make test` runs without it

    fonts = folder / "fonts.conf"
    fonts.write_text(_FONTS.format(fonts=FONTS, cache=folder / "cache"))
    environ = {"FONTCONFIG_FILE": str(fonts), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=[*_FLAGS, _NO_SANDBOX], env=environ)
        yield browser
        browser.close()

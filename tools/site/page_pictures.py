"""Takes pictures of the web pages, from a run of the tutorial: `make pictures`, after `make test-servers`.

docs/images/tutorial-overview.png     what needs attention, after the tutorial's first expectations
docs/images/tutorial-pages-graph.png  the graph with its list
docs/images/tutorial-quarantine.png   the quarantined rows by rule
docs/images/page-dataset.png          a streaming table, with its commits
docs/images/page-flow.png             a flow, with its batches
docs/images/page-update.png           an update, with the times of its flows and its plan
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "examples" / "flights")]

from landing import DEFAULT_SEED, land  # noqa: E402
from tests.browser.chromium import running_chromium  # noqa: E402
from tests.browser.parts import missing_parts  # noqa: E402

from pictures import IMAGES  # noqa: E402

# By picture.
PAGES = {
    "tutorial-overview": "",
    "tutorial-pages-graph": "/graph",
    "tutorial-quarantine": "/quarantine",
    "page-dataset": "/d/flights",
    "page-flow": "/f/flights",
    "page-update": "/updates",
}
# What is clicked first: the first update, which is of all datasets, at the end of the list.
FOLLOWED = {"page-update": "#updates tbody th a"}
SIZE = {"width": 1280, "height": 800}
COLOURS = 256


def main() -> None:
    """Run the tutorial up to its first expectations, and take pictures of the pages."""
    if missing := missing_parts():
        sys.exit(f"{', '.join(missing)} missing; run `make test-servers`")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "flights"
        first, second = _versions()
        _write(folder, first)
        land(folder / "landing", 1, 3, DEFAULT_SEED, until=date(2013, 3, 31))
        _headrace(folder, "run")
        _write(folder, second)
        _headrace(folder, "run", "--full-refresh", "flights")
        with _served(folder) as login:
            _take_pictures(login, Path(scratch))


def _versions() -> tuple[dict[str, str], dict[str, str]]:
    """The files of the tutorial as they are before the first update, and those with the first expectations."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    for name, content in re.findall(r'^```\w+ title="([^"]+)"[^\n]*\n(.*?)^```', page, re.MULTILINE | re.DOTALL):
        (second if name in first else first).setdefault(name, content)
    return first, second


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def _headrace(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "headrace", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The URL that signs in to a server of the project."""
    command = [sys.executable, "-m", "headrace", "serve", "--listen", "127.0.0.1:8741"]
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
    with subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, encoding="utf-8") as server:
        try:
            yield next(filter(None, (re.search(r"http\S+token=\S+", line) for line in server.stdout or ())))[0]
        finally:
            server.terminate()


def _take_pictures(login: str, folder: Path) -> None:
    from PIL import Image  # noqa: PLC0415 - only now it is known to be installed

    with running_chromium(folder) as browser:
        page = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce").new_page()
        page.goto(login)
        for name, path in PAGES.items():
            page.goto(f"{login.partition('/login')[0]}/p/flights{path}")
            if name in FOLLOWED:
                page.locator(FOLLOWED[name]).last.click()
                page.wait_for_load_state()
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(COLOURS, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()

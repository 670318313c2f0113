"""The main pages look as they did: pictures in two sizes, light and dark.

`make golden ARGS=tests/browser/test_pictures.py` draws them again. A new version of Chromium may need that.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import NARROW, WIDE
from tests.browser.example_shop import PAGES

if TYPE_CHECKING:
    from PIL.Image import Image

pytestmark = pytest.mark.long(
    guard=[
        "tests/unit/serve/test_pages.py::test_a_page_is_as_expected",
        "tests/unit/serve/test_style.py::test_texts_have_the_contrast_that_people_need",
    ]
)
PICTURES = Path(__file__).parent / "pictures"
MAIN = {"overview", "graph", "dataset", "flow", "update", "quarantine"}
LOOKS = [(size, scheme) for size in (WIDE, NARROW) for scheme in ("light", "dark")]
# Stored pictures have few colours, and versions of Chromium smooth letters a little differently: a pixel differs from
# so much of a channel on, and so many of all pixels may.
_DIFFERENCE, _MOST_DIFFERING = 48, 0.001
_COLOURS = 256


def share_of_differing(one: Image, other: Image) -> float:
    """How many of the pixels of two pictures differ."""
    from PIL import ImageChops  # noqa: PLC0415 - `make test` runs without it

    if one.size != other.size:
        return 1.0
    bands = ImageChops.difference(one.convert("RGB"), other.convert("RGB")).split()
    worst = ImageChops.lighter(ImageChops.lighter(*bands[:2]), bands[2])
    return sum(worst.histogram()[_DIFFERENCE:]) / (one.width * one.height)


@pytest.mark.parametrize("path", [pytest.param(page.path, id=page.name) for page in PAGES if page.name in MAIN])
def test_main_pages_look_as_they_did_in_two_sizes_light_and_dark(window, path, request, tmp_path):
    from PIL import Image  # noqa: PLC0415 - `make test` runs without it

    name = request.node.callspec.id
    visitor = window()
    visitor.visit(path)

    shares = {}
    for size, scheme in LOOKS:
        file = PICTURES / f"{name}-{size[0]}-{scheme}.png"
        visitor.sized(size, scheme)
        drawn = Image.open(io.BytesIO(visitor.page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
        if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
            file.parent.mkdir(exist_ok=True)
            drawn.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
        drawn.save(tmp_path / file.name)
        with Image.open(file) as expected:
            shares[file.name] = share_of_differing(drawn, expected)

    # The pictures as they are now are in the folder of the test, which a failed test keeps.
    assert {name: share for name, share in shares.items() if share > _MOST_DIFFERING} == {}, tmp_path

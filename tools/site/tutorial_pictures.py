"""Draws the pictures of the tutorial and the graph of the landing page, after tools/pictures.py: `make pictures`.

docs/images/tutorial-run.svg     the live display of the first update
docs/images/tutorial-graph.svg   the graph of the tutorial's pipeline
docs/images/flights.svg          the graph of the example project
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import time
from collections import defaultdict
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "examples" / "flights")]

from demo import _fresh_copy  # noqa: E402
from landing import DEFAULT_SEED, land  # noqa: E402
from rich.console import Console, Group  # noqa: E402

from headrace import Project  # noqa: E402
from headrace.cli.live_display import LiveTable  # noqa: E402
from headrace.events.types import Event, FlowStateChanged  # noqa: E402
from headrace.graph.resolved import ResolvedGraph  # noqa: E402
from headrace.model.datasets import Kind  # noqa: E402
from headrace.model.outcome import FlowState  # noqa: E402
from pictures import COLUMNS, IMAGES, picture  # noqa: E402

# Of characters, boxes and the space around them, in pixels; and the least width: few boxes do not fill the page.
CHARACTER, HEIGHT, GAP, PADDING, WIDTH = 7.3, 30, 60, 16, 760
COLORS = {Kind.STREAMING_TABLE: "#68a0b3", Kind.MATERIALIZED_VIEW: "#98a84b", Kind.TEMPORARY_VIEW: "#8d7b8d"}
STYLE = """\
text { font: 12px monospace; fill: #c5c8c6 }
rect.box { fill: #35353a }
path { fill: none; stroke: #8a8a8a; stroke-width: 1.5 }
path.batch { stroke-dasharray: 5 4 }"""


def main() -> None:
    """Run the first update of the tutorial, and draw what it looks like."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "flights"
        _tutorial(folder)
        land(folder / "landing", 1, 3, DEFAULT_SEED, until=date(2013, 3, 31))
        with contextlib.chdir(folder):
            project = Project.open(folder)
            # The empty line keeps the last row of the table inside of the picture.
            picture("tutorial-run", "headrace run", Group(_running(project), ""))
            _write("tutorial-graph", project.graph())
        example = Path(scratch) / "example"
        _fresh_copy(example)
        land(example / "landing", 1, 3, DEFAULT_SEED, until=date(2013, 3, 31))
        _write("flights", Project.open(example).graph())


def _tutorial(folder: Path) -> None:
    """Write the files of the tutorial as they are before the first update."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    files: dict[str, str] = {}
    for name, content in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', page, re.MULTILINE | re.DOTALL):
        files.setdefault(name, content)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def _running(project: Project) -> Any:
    """The display of an update, when one flow is done and another one runs."""
    display = LiveTable(Console(file=io.StringIO(), width=COLUMNS), time.monotonic)
    taken: list[Any] = []
    states: dict[str, FlowState] = {}

    def on_event(event: Event) -> None:
        display.on_event(event)
        if isinstance(event, FlowStateChanged):
            states[event.flow] = event.state
        if not taken and {FlowState.RUNNING, FlowState.COMPLETED} <= set(states.values()):
            taken.append(display.table())

    project.run(on_event=on_event)
    return taken[0] if taken else display.table()


def _write(name: str, graph: ResolvedGraph) -> None:
    (IMAGES / f"{name}.svg").write_text(graph_picture(graph), encoding="utf-8")


def graph_picture(graph: ResolvedGraph) -> str:
    """The graph from left to right: a box a dataset, a line for what a flow reads, dashed if it is not a stream."""
    edges = [
        (str(given.name), str(flow.target), given.streaming) for flow in graph.flows for given in flow.analysis.inputs
    ]
    columns = _columns([str(dataset.name) for dataset in graph.datasets], edges)
    places, width, height = _places(columns, edges)
    drawn = []
    for source, target, streaming in edges:
        (x, y, wide), (end, there, _) = places[source], places[target]
        start, middle = x + wide, (x + wide + end) / 2
        look = "stream" if streaming else "batch"
        drawn.append(f'<path class="{look}" d="M{start:g} {y} C{middle:g} {y} {middle:g} {there} {end:g} {there}"/>')
    for dataset in graph.datasets:
        x, y, wide = places[str(dataset.name)]
        color, top = COLORS.get(dataset.kind, "#b36f68"), y - HEIGHT / 2
        drawn += [
            f'<rect class="box" x="{x:g}" y="{top:g}" width="{wide:g}" height="{HEIGHT}" rx="4"/>',
            f'<rect x="{x:g}" y="{top:g}" width="5" height="{HEIGHT}" rx="2" fill="{color}"/>',
            f'<text x="{x + 14:g}" y="{y + 4}">{escape(str(dataset.name))}</text>',
        ]
    left = PADDING
    for kind in dict.fromkeys(dataset.kind for dataset in graph.datasets):
        color = COLORS.get(kind, "#b36f68")
        drawn.append(f'<rect x="{left:g}" y="{height + 2}" width="5" height="14" rx="2" fill="{color}"/>')
        drawn.append(f'<text x="{left + 12:g}" y="{height + 13}">{kind.label}</text>')
        left += 12 + CHARACTER * (len(kind.label) + 3)
    width = max(width, left)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + 32}">\n<style>\n{STYLE}\n</style>\n'
        f'<rect width="{width:g}" height="{height + 32}" rx="8" fill="#292929"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _columns(names: list[str], edges: list[tuple[str, str, bool]]) -> list[list[str]]:
    """Names by the longest way to them; inputs come before what reads them in *names*."""
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max((depth[source] + 1 for source, target, _ in edges if target == name), default=0)
    # What only one later dataset reads stands right before it.
    for name in reversed(names):
        readers = [depth[target] for source, target, _ in edges if source == name]
        depth[name] = min(readers) - 1 if readers else depth[name]
    columns: dict[int, list[str]] = defaultdict(list)
    for name in names:
        columns[depth[name]].append(name)
    return [columns[number] for number in sorted(columns)]


def _places(
    columns: list[list[str]], edges: list[tuple[str, str, bool]]
) -> tuple[dict[str, tuple[float, int, float]], float, int]:
    """Left edge, middle and width of each box; then the width and the height of all."""
    step = HEIGHT + 14
    height = 2 * PADDING + max(map(len, columns)) * step
    widths = [max(map(len, column)) * CHARACTER + 26 for column in columns]
    gap = max(GAP, (WIDTH - 2 * PADDING - sum(widths)) / max(1, len(columns) - 1))
    places: dict[str, tuple[float, int, float]] = {}
    x = float(PADDING)
    for column, wide in zip(columns, widths, strict=True):

        def height_of_inputs(name: str) -> float:
            given = [places[source][1] for source, target, _ in edges if target == name and source in places]
            return sum(given) / len(given) if given else height / 2

        first = (height - len(column) * step) // 2 + step // 2
        for row, name in enumerate(sorted(column, key=height_of_inputs)):
            places[name] = (x, first + row * step, wide)
        x += wide + gap
    return places, x - gap + PADDING, height


if __name__ == "__main__":
    main()

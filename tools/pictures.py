"""Draws the pictures of the README and the docs from a run of the example project: `make pictures`.

docs/images/run.svg   the live display of an update, while it runs
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "flights"
IMAGES = ROOT / "docs" / "images"
COLUMNS = 80
# The picture is taken once so many flows are done and others still run.
DONE = 5
sys.path.insert(0, str(EXAMPLE))

from demo import _fresh_copy  # noqa: E402
from landing import DEFAULT_SEED, land  # noqa: E402
from rich.console import Console  # noqa: E402

from headrace import Project  # noqa: E402
from headrace.cli.live_display import LiveTable  # noqa: E402
from headrace.events.types import Event, FlowStateChanged  # noqa: E402
from headrace.model.outcome import FlowState  # noqa: E402


def main() -> None:
    """Run the first instalment of the example, and write the picture."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "flights"
        _fresh_copy(folder)
        land(folder / "landing", 1, 3, DEFAULT_SEED, until=date(2013, 3, 31))
        project = Project.open(folder)
        display = LiveTable(Console(file=io.StringIO(), width=COLUMNS), time.monotonic)
        taken: list[Any] = []
        states: dict[str, FlowState] = {}

        def on_event(event: Event) -> None:
            display.on_event(event)
            if isinstance(event, FlowStateChanged):
                states[event.flow] = event.state
            counted = Counter(states.values())
            if not taken and counted[FlowState.RUNNING] >= 2 and counted[FlowState.COMPLETED] >= DONE:
                taken.append(display.table())

        project.run(on_event=on_event)
        picture("run", "headrace run", taken[0] if taken else display.table())


def picture(name: str, command: str, shown: Any) -> None:
    """Write a picture of a terminal with a command and its output."""
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print(f"$ {command}", style="bold", highlight=False)
    console.print(shown, highlight=False, markup=False) if isinstance(shown, str) else console.print(shown)
    # Viewers cut the descenders of the last line.
    console.print()
    IMAGES.mkdir(exist_ok=True)
    drawn = console.export_svg(title="Headrace", unique_id=name)
    # The reader's own font: nothing is fetched to look at a picture.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code, ", "")
    (IMAGES / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()

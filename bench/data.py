"""Seeded JSON lines, written column by column; the same arguments always give the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = "id BIGINT, device INT, kind STRING, amount DOUBLE, note STRING"
KINDS = ("start", "stop", "reading", "alarm", "reset", "check", "open", "close", "idle")
FILES = 8


def write_events(folder: Path, rows: int, seed: int = 20260101) -> None:
    """Write *rows* events as JSON lines in eight files; a finished folder is reused."""
    ready = folder / "_READY"
    if ready.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed)
    for number, ids in enumerate(np.array_split(np.arange(rows, dtype=np.int64), FILES)):
        (folder / f"part-{number:03}.json").write_text(_lines(ids, chance), encoding="utf-8")
    ready.touch()


def _lines(ids: np.ndarray, chance: np.random.Generator) -> str:
    count = len(ids)
    kinds = pa.array(KINDS).take(pa.array(ids % len(KINDS)))
    # About one row in a hundred has an invalid, negative amount.
    amounts = np.round(chance.normal(50, 21.5, count), 2)
    parts = (
        '{"id":',
        pa.array(ids),
        ',"device":',
        pa.array(chance.integers(0, 1000, count)),
        ',"kind":"',
        kinds,
        '","amount":',
        pa.array(amounts),
        ',"note":"n',
        pa.array(chance.integers(0, 10**9, count)),
        '"}',
    )
    texts = [pa.scalar(part) if isinstance(part, str) else part.cast(pa.string()) for part in parts]
    lines = pc.binary_join_element_wise(*texts, "")
    return "\n".join(lines.to_pylist()) + "\n"

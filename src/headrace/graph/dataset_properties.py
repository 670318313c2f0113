"""Checks the table properties that datasets declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset
from headrace.model.properties import KNOWN_PROPERTIES, PREFIX, values_of


def property_problems(datasets: Iterable[Dataset]) -> Iterator[PipelineError]:
    """Unknown properties of this product, and values that they cannot have: DATASET.*."""
    for dataset in datasets:
        for key, value in dataset.properties.items():
            if key in KNOWN_PROPERTIES:
                known = values_of(key)
                if known and value.strip().casefold() not in known:
                    yield PipelineError(
                        "DATASET.PROPERTY_VALUE",
                        location=dataset.location,
                        name=dataset.name,
                        key=key,
                        value=value,
                        first=known[0],
                        others=" or ".join(f'"{one}"' for one in known[1:]),
                    )
            elif key.casefold().startswith(PREFIX):
                yield PipelineError(
                    "DATASET.UNKNOWN_PROPERTY",
                    location=dataset.location,
                    name=dataset.name,
                    key=key,
                    known=", ".join(KNOWN_PROPERTIES),
                    near=next(iter(get_close_matches(key.casefold(), KNOWN_PROPERTIES, n=1)), "one of the known ones"),
                )

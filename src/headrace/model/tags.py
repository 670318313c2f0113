"""Tags of datasets: words in a table property, by which commands select datasets."""

from __future__ import annotations

from collections.abc import Mapping

# Words, separated by commas.
TAGS_PROPERTY = "headrace.tags"


def tags_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The tags in the properties of a dataset, each once, as written."""
    words = (word.strip() for word in properties.get(TAGS_PROPERTY, "").split(","))
    return tuple({word.casefold(): word for word in words if word}.values())

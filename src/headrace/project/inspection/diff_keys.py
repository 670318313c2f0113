"""The key by which the rows of two versions are matched: as requested, or that of the table's change data capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY, MergeKeys
from headrace.cdc.scd_spec import START_AT, SYSTEM_START_AT
from headrace.errors import PipelineError
from headrace.model.cdc import BITEMPORAL
from headrace.model.comparable_types import ComparedColumn
from headrace.model.table_diff import KeyOrigin
from headrace.options.nearest import did_you_mean

# Tables with a history have a row for each version of a key.
_OF_VERSIONS = {"2": (START_AT,), BITEMPORAL: (START_AT, SYSTEM_START_AT)}


@dataclass(frozen=True)
class DiffKey:
    """The positions of the key's columns among those that are compared, and who named them; empty for no key."""

    positions: tuple[int, ...] = ()
    origin: KeyOrigin | None = None


def diff_key(
    name: str, requested: Sequence[str], columns: Sequence[ComparedColumn], properties: Mapping[str, str]
) -> DiffKey:
    """The key of a comparison.

    Args:
        name: of the table.
        requested: names of columns, or several with commas between them; empty for the key of change data capture.
        columns: those that both versions have.
        properties: of the table's newer version.

    Raises:
        PipelineError: DIFF.NO_KEY_COLUMN.
    """
    by_name = {spelling.casefold(): n for n, column in enumerate(columns) for spelling in column.names}
    if requested:
        return DiffKey(tuple(dict.fromkeys(_requested(name, requested, columns, by_name))), KeyOrigin.OPTION)
    stored = MergeKeys.of_property(properties.get(MERGE_KEYS_PROPERTY, ""))
    if stored is None:
        return DiffKey()
    names = [*sorted(stored.keys), *_OF_VERSIONS.get(stored.scd_type, ())]
    positions = [by_name.get(one.casefold()) for one in names]
    known = tuple(position for position in positions if position is not None)
    return DiffKey(known, KeyOrigin.AUTO_CDC) if len(known) == len(names) else DiffKey()


def _requested(
    name: str, requested: Sequence[str], columns: Sequence[ComparedColumn], by_name: Mapping[str, int]
) -> list[int]:
    found = []
    for text in requested:
        # The name of a column may have a comma.
        names = [text] if text.casefold() in by_name else [part.strip() for part in text.split(",")]
        for one in filter(None, names):
            if one.casefold() not in by_name:
                known = [column.name for column in columns]
                suggestion = did_you_mean(one, known).replace("The pipeline defines", "Both have")
                raise PipelineError("DIFF.NO_KEY_COLUMN", name=name, column=one, suggestion=suggestion)
            found.append(by_name[one.casefold()])
    return found

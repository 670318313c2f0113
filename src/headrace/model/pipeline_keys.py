"""Every key that begins with ``pipelines.``: where it may stand, which values it has, and what it does here.

They are the vendor's, and Spark's own pipelines know one of them. Case does not matter in a key: each has one spelling
from here on. What is in no entry is a misspelling until somebody says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from headrace.model.tombstone_retention import RETENTION_KEYS
from headrace.model.triggers import INTERVAL_KEY, TRIGGER_KEY

PREFIX = "pipelines."
RESET_KEY = "pipelines.reset.allowed"
MANAGED_KEY = "pipelines.autoOptimize.managed"
RETRIES_KEY = "pipelines.maxFlowRetryAttempts"
SWITCH = ("true", "false")


class Place(Enum):
    """Where a key may stand; the value is for the reader."""

    TABLE = "the properties of a table"
    FLOW = "the spark_conf of a flow, or SET in a SQL file"
    PIPELINE = "configuration in the settings"


@dataclass(frozen=True)
class PipelineKey:
    """One key of the vendor's.

    Attributes:
        name: as it is written from here on.
        places: where it may stand.
        switch: its values are true and false.
        without_effect: why it changes nothing here; None where it does.
    """

    name: str
    places: tuple[Place, ...]
    switch: bool = False
    without_effect: str | None = None


_T, _F, _P = Place.TABLE, Place.FLOW, Place.PIPELINE
_ONE_OWNER = "each storage belongs to one pipeline"
_CATALOG = "it is a setting of the Databricks catalog"
PIPELINE_KEYS: tuple[PipelineKey, ...] = (
    PipelineKey(RESET_KEY, (_T,), switch=True),
    PipelineKey(MANAGED_KEY, (_T,), switch=True),
    PipelineKey("pipelines.autoOptimize.zOrderCols", (_T,), without_effect="use cluster_by instead"),
    PipelineKey(INTERVAL_KEY, (_T, _F, _P)),
    PipelineKey(TRIGGER_KEY, (_T, _F)),
    PipelineKey(RETRIES_KEY, (_P,)),
    *(PipelineKey(key, (_T, _P)) for key in sorted(RETENTION_KEYS)),
    PipelineKey("pipelines.channel", (_T, _P), without_effect="the installed version is used"),
    PipelineKey("pipelines.numUpdateRetryAttempts", (_P,), without_effect="your scheduler retries updates"),
    PipelineKey("pipelines.clusterShutdown.delay", (_P,), without_effect="no cluster outlives the update"),
    PipelineKey(
        "pipelines.tableManagedByMultiplePipelinesCheck.enabled", (_T, _P), switch=True, without_effect=_ONE_OWNER
    ),
    PipelineKey(
        "pipelines.dropInactiveTables",
        (_P,),
        switch=True,
        without_effect="tables that the code no longer defines are kept; headrace plan lists them",
    ),
    *(
        PipelineKey(f"pipelines.{name}", (_T, _P), without_effect=_CATALOG)
        for name in (
            "enableDPMForExistingPipeline",
            "externalMetadata.enabled",
            "incompatibleViewCheck.enabled",
            "migration.ignoreExplicitPath",
            "pipelineId",
            "setMigrationHints",
        )
    ),
    PipelineKey("pipelines.enzyme.enabled", (_T, _P), without_effect="views are recomputed when an input has changed"),
)
_BY_FOLDED: Mapping[str, PipelineKey] = {key.name.casefold(): key for key in PIPELINE_KEYS}


def is_pipeline_key(text: str) -> bool:
    """True for a key that begins with ``pipelines.``, in any case."""
    return text.casefold().startswith(PREFIX)


def pipeline_key(text: str) -> PipelineKey | None:
    """The key behind a spelling, or None for one that there is not."""
    return _BY_FOLDED.get(text.strip().casefold())


def in_one_spelling(confs: Mapping[str, str]) -> dict[str, str]:
    """Properties or settings, of which known keys have the spelling that the rest of the program looks for.

    A key that is there in two spellings stays as it is, for :func:`misfits` to find.
    """
    names = {key: known.name for key in confs if (known := pipeline_key(key)) is not None}
    repeated = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {key if names.get(key, key) in repeated else names.get(key, key): value for key, value in confs.items()}


def misfits(confs: Mapping[str, str], place: Place) -> Iterator[tuple[str, str, str]]:
    """Keys that cannot stand in a place, each with the reason and with what to do instead.

    Values that have a form of their own, such as intervals, are looked at where they are read.
    """
    seen: dict[str, str] = {}
    for key in filter(is_pipeline_key, confs):
        known = pipeline_key(key)
        if known is None:
            yield key, "the key is unknown", f"Write {nearest_key(key, place)}, or remove it."
        elif place not in known.places:
            where = " or ".join(one.value for one in known.places)
            yield key, f"it has no effect in {place.value}", f"Put it into {where}."
        elif known.name in seen:
            yield key, f"{seen[known.name]} sets it too", "Remove one of them."
        elif known.switch and confs[key].strip().casefold() not in SWITCH:
            yield key, f'"{confs[key]}" is neither true nor false', "Write true or false."
        if known is not None:
            seen.setdefault(known.name, key)


def nearest_key(text: str, place: Place) -> str:
    """The key that was probably meant, of those that can stand in a place; all of them where none is near."""
    known = {key.name.casefold(): key.name for key in PIPELINE_KEYS if place in key.places}
    close = get_close_matches(text.strip().casefold(), known, n=1)
    used = [key.name for key in PIPELINE_KEYS if place in key.places and key.without_effect is None]
    return known[close[0]] if close else f"one of {', '.join(used)}"

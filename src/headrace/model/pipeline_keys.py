"""All keys that begin with ``pipelines.``: where each may be set, its values and its effect.

They are the vendor's; Spark's own pipelines have one of them. Keys ignore case and are normalized to one spelling. A
key without an entry here counts as misspelled.
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
Z_ORDER_KEY = "pipelines.autoOptimize.zOrderCols"
RETRIES_KEY = "pipelines.maxFlowRetryAttempts"
UPDATE_RETRIES_KEY = "pipelines.numUpdateRetryAttempts"
SWITCH = ("true", "false")


class KeyScope(Enum):
    """Where a key may be set; users see the value."""

    TABLE = "the properties of a table"
    FLOW = "the spark_conf of a flow, or SET in a SQL file"
    PIPELINE = "configuration in the settings"


@dataclass(frozen=True)
class PipelineKey:
    """One key.

    Attributes:
        name: the normalized spelling.
        scopes: where it may be set.
        is_boolean: its values are true and false.
        without_effect: why it has no effect; None if it has one.
    """

    name: str
    scopes: tuple[KeyScope, ...]
    is_boolean: bool = False
    without_effect: str | None = None


_T, _F, _P = KeyScope.TABLE, KeyScope.FLOW, KeyScope.PIPELINE
_ONE_OWNER = "each storage belongs to one pipeline"
_CATALOG = "it is a setting of the Databricks catalog"
PIPELINE_KEYS: tuple[PipelineKey, ...] = (
    PipelineKey(RESET_KEY, (_T,), is_boolean=True),
    PipelineKey(MANAGED_KEY, (_T,), is_boolean=True),
    PipelineKey(Z_ORDER_KEY, (_T,)),
    PipelineKey(INTERVAL_KEY, (_T, _F, _P)),
    PipelineKey(TRIGGER_KEY, (_T, _F)),
    PipelineKey(RETRIES_KEY, (_P,)),
    PipelineKey(UPDATE_RETRIES_KEY, (_P,)),
    *(PipelineKey(key, (_T, _P)) for key in sorted(RETENTION_KEYS)),
    PipelineKey("pipelines.channel", (_T, _P), without_effect="the installed version is used"),
    PipelineKey("pipelines.clusterShutdown.delay", (_P,), without_effect="no cluster outlives the update"),
    PipelineKey(
        "pipelines.tableManagedByMultiplePipelinesCheck.enabled", (_T, _P), is_boolean=True, without_effect=_ONE_OWNER
    ),
    PipelineKey(
        "pipelines.dropInactiveTables",
        (_P,),
        is_boolean=True,
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
    PipelineKey(
        "pipelines.enzyme.enabled",
        (_T, _P),
        without_effect="the refresh policy of a view says how much of it is computed",
    ),
)
_BY_FOLDED: Mapping[str, PipelineKey] = {key.name.casefold(): key for key in PIPELINE_KEYS}


def is_pipeline_key(text: str) -> bool:
    """True if a key begins with ``pipelines.``, in any case."""
    return text.casefold().startswith(PREFIX)


def pipeline_key(text: str) -> PipelineKey | None:
    """The key for a spelling; None if it is unknown."""
    return _BY_FOLDED.get(text.strip().casefold())


def normalize_keys(confs: Mapping[str, str]) -> dict[str, str]:
    """Properties or settings with known keys in their normalized spelling.

    A key that occurs in two spellings is left unchanged, for :func:`invalid_keys` to report.
    """
    names = {key: known.name for key in confs if (known := pipeline_key(key)) is not None}
    repeated = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {key if names.get(key, key) in repeated else names.get(key, key): value for key, value in confs.items()}


def invalid_keys(confs: Mapping[str, str], scope: KeyScope) -> Iterator[tuple[str, str, str]]:
    """Keys that are invalid in a scope, each with the reason and the fix.

    Values with a special format, such as intervals, are checked where they are read.
    """
    seen: dict[str, str] = {}
    for key in filter(is_pipeline_key, confs):
        known = pipeline_key(key)
        if known is None:
            yield key, "the key is unknown", f"Write {nearest_key(key, scope)}, or remove it."
        elif scope not in known.scopes:
            where = " or ".join(one.value for one in known.scopes)
            yield key, f"it has no effect in {scope.value}", f"Put it into {where}."
        elif known.name in seen:
            yield key, f"{seen[known.name]} sets it too", "Remove one of them."
        elif known.is_boolean and confs[key].strip().casefold() not in SWITCH:
            yield key, f'"{confs[key]}" is neither true nor false', "Write true or false."
        if known is not None:
            seen.setdefault(known.name, key)


def z_order_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns by which ``headrace maintain`` Z-orders a table; empty if the table does not say."""
    names = normalize_keys(properties).get(Z_ORDER_KEY, "").split(",")
    return tuple(name.strip().strip("`") for name in names if name.strip())


def nearest_key(text: str, scope: KeyScope) -> str:
    """The most similar key of a scope; all its keys if none is similar."""
    known = {key.name.casefold(): key.name for key in PIPELINE_KEYS if scope in key.scopes}
    close = get_close_matches(text.strip().casefold(), known, n=1)
    used = [key.name for key in PIPELINE_KEYS if scope in key.scopes and key.without_effect is None]
    return known[close[0]] if close else f"one of {', '.join(used)}"

"""Tables that changes are merged into may have deletion vectors: a batch then writes only the rows that it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.graph.resolved import ResolvedDataset, ResolvedFlow
from headrace.model.names import QualifiedName

VECTORS_PROPERTY = "delta.enableDeletionVectors"
# Who has said so, or asks for what Delta makes without them: tables that are to be read as Iceberg, or by manifests.
_SAID = (
    VECTORS_PROPERTY.casefold(),
    "delta.enableicebergcompat",
    "delta.universalformat.",
    "delta.compatibility.symlinkformatmanifest.",
)


def marked_merged(
    datasets: Mapping[QualifiedName, ResolvedDataset], flows: Iterable[ResolvedFlow]
) -> dict[QualifiedName, ResolvedDataset]:
    """The datasets, of which those that changes are merged into are marked as such."""
    merged = {flow.target for flow in flows if flow.merges}
    return {name: replace(found, merged=True) if name in merged else found for name, found in datasets.items()}


def as_made(dataset: ResolvedDataset, defaults: Mapping[str, str]) -> ResolvedDataset:
    """A dataset with the properties that a new table of it gets: deletion vectors for one that changes are merged into.

    Tables that are there keep what they have: who reads them may not know deletion vectors.

    Args:
        dataset: as declared, which may say otherwise.
        defaults: properties that the session gives to every new table, which may say so, too.
    """
    declared = dataset.dataset.properties
    if not dataset.merged or any(key.casefold().startswith(_SAID) for key in (*declared, *defaults)):
        return dataset
    properties = {**declared, VECTORS_PROPERTY: "true"}
    return replace(dataset, dataset=replace(dataset.dataset, properties=properties))

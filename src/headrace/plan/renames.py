"""Renames of datasets and flows: which are pending, and which are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from headrace.errors import PipelineError, raise_all
from headrace.graph.resolved import ResolvedGraph
from headrace.model.datasets import Kind
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.options.nearest import did_you_mean


class RenameKind(str, Enum):
    """The kind of thing that is renamed."""

    DATASET = "dataset"
    FLOW = "flow"


@dataclass(frozen=True)
class Rename:
    """One entry of the settings. ``dataset`` is the new name of the dataset or of the flow's dataset."""

    kind: RenameKind
    old: str
    new: str
    dataset: QualifiedName
    old_dataset: QualifiedName
    # The new name is that of a persisted view: only its definition is stored.
    view: bool = False

    def describe(self) -> str:
        """One line for the reader."""
        if self.view:
            return f"rename     {self.new}: takes over the definition of view {self.old}"
        taken = "table, quarantine, checkpoints" if self.kind is RenameKind.DATASET else "checkpoints"
        return f"rename     {self.new}: takes over the {taken} and counters of {self.kind.value} {self.old}"

    def to_json(self) -> dict[str, Any]:
        """The rename for programs."""
        return {"what": self.kind.value, "from": self.old, "to": self.new}


@dataclass(frozen=True)
class RenameSettings:
    """The settings: old names to new ones."""

    datasets: Mapping[str, str]
    flows: Mapping[str, str]


class StoredNames(Protocol):
    """Looks up names in the storage. It never writes."""

    def is_pending(self, rename: Rename) -> bool:
        """True if the storage still has something under the old name."""

    def has_flow(self, flow: str) -> bool:
        """True if a flow of this name, of any dataset, has state."""

    def conflict(self, rename: Rename) -> str | None:
        """The path under the new name that conflicts with one under the old name, or None."""


def renames(
    names: RenameSettings, graph: ResolvedGraph, naming: Naming, stored: StoredNames, location: Location
) -> tuple[Rename, ...]:
    """The pending renames, datasets first.

    An entry whose old name has nothing left in the storage is done and ignored.

    Raises:
        Problems: an old name is still in the code, a new one is not or is taken, or renames form a chain.
    """
    problems: list[PipelineError] = []
    found: list[Rename] = []
    datasets = _datasets(names.datasets, naming, location, problems)
    old_names = {new: old for old, new in datasets.items()}
    for old, new in datasets.items():
        dataset = graph.by_name.get(new)
        view = dataset is not None and dataset.kind is Kind.PERSISTED_VIEW
        rename = Rename(RenameKind.DATASET, str(old), str(new), new, old, view)
        known = [str(known.name) for known in graph.datasets if known.kind.has_storage]
        old_defined = old in graph.by_name or old in graph.unavailable_datasets
        problem = _refused(
            rename, old_defined, dataset is not None and dataset.kind.has_storage, known, stored, location
        )
        problems += [problem] if problem else []
        found += [rename] if problem is None and stored.is_pending(rename) else []
    defined = graph.by_flow.keys() | {unavailable.name for unavailable in graph.unavailable}
    for old_flow, new_flow in _flows(names.flows, location, problems).items():
        flow = graph.by_flow.get(new_flow)
        target = flow.target if flow is not None else QualifiedName(new_flow)
        rename = Rename(RenameKind.FLOW, old_flow, new_flow, target, old_names.get(target, target))
        known = [known.name for known in graph.stored_flows]
        problem = _refused(rename, old_flow in defined, flow is not None, known, stored, location)
        if problem is None and flow is not None and graph.by_name[target].members and stored.has_flow(old_flow):
            # The group of its targets has the name of the flow.
            problem = PipelineError("RENAME.SEVERAL_TARGETS", location=location, old=old_flow, new=new_flow)
        problems += [problem] if problem else []
        found += [rename] if problem is None and flow is not None and stored.is_pending(rename) else []
    raise_all(problems)
    return tuple(found)


def _refused(
    rename: Rename,
    old_defined: bool,  # noqa: FBT001 - two questions that the caller has answered
    new_defined: bool,  # noqa: FBT001 - the same
    known: list[str],
    stored: StoredNames,
    location: Location,
) -> PipelineError | None:
    what, old, new = rename.kind.value, rename.old, rename.new
    if old_defined:
        return PipelineError("RENAME.STILL_DEFINED", location=location, what=what, old=old, new=new)
    if not new_defined:
        # The path of a flow's state is unknown without its definition.
        remains = stored.is_pending(rename) if rename.kind is RenameKind.DATASET else stored.has_flow(old)
        if not remains:
            return None
        return PipelineError(
            "RENAME.NOT_DEFINED", location=location, what=what, old=old, new=new, suggestion=did_you_mean(new, known)
        )
    taken = stored.conflict(rename)
    if taken is not None:
        return PipelineError("RENAME.TAKEN", location=location, what=what, old=old, new=new, path=taken)
    return None


def _datasets(
    texts: Mapping[str, str], naming: Naming, location: Location, problems: list[PipelineError]
) -> dict[QualifiedName, QualifiedName]:
    found: dict[QualifiedName, QualifiedName] = {}
    for texts_of in texts.items():
        try:
            old, new = map(naming.canonical, texts_of)
        except InvalidName as invalid:
            problems.append(PipelineError("RENAME.INVALID", location=location, reason=invalid))
            continue
        found[old] = new
    _refuse_chains(found, location, problems)
    return found


def _flows(texts: Mapping[str, str], location: Location, problems: list[PipelineError]) -> dict[str, str]:
    _refuse_chains(texts, location, problems)
    return dict(texts)


def _refuse_chains(names: Mapping[Any, Any], location: Location, problems: list[PipelineError]) -> None:
    seen: dict[Any, Any] = {}
    for old, new in names.items():
        if new in names or new in seen:
            problems.append(PipelineError("RENAME.CHAIN", location=location, old=old, new=new))
        seen[new] = old

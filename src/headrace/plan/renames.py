"""New names of datasets and flows: which are still to be carried over, and which cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from headrace.errors import PipelineError, raise_all
from headrace.graph.build import did_you_mean
from headrace.graph.resolved import ResolvedGraph
from headrace.model.datasets import Kind
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName


class Renamed(str, Enum):
    """What has a new name."""

    DATASET = "dataset"
    FLOW = "flow"


@dataclass(frozen=True)
class Rename:
    """One entry of the settings. ``dataset`` is whose flow it is, or the new name of the dataset itself."""

    what: Renamed
    old: str
    new: str
    dataset: QualifiedName
    before: QualifiedName
    # The new name is that of a persisted view, of which only a definition is stored.
    view: bool = False

    def describe(self) -> str:
        """One line for the reader."""
        if self.view:
            return f"rename     {self.new}: takes over the definition of view {self.old}"
        taken = "table, quarantine, checkpoints" if self.what is Renamed.DATASET else "checkpoints"
        return f"rename     {self.new}: takes over the {taken} and counters of {self.what.value} {self.old}"

    def to_json(self) -> dict[str, Any]:
        """The rename for programs."""
        return {"what": self.what.value, "from": self.old, "to": self.new}


@dataclass(frozen=True)
class NewNames:
    """What the settings say: old names to new ones."""

    datasets: Mapping[str, str]
    flows: Mapping[str, str]


class StoredNames(Protocol):
    """Looks at what lies under a name; never writes."""

    def pending(self, rename: Rename) -> bool:
        """True when something still lies under the old name."""

    def knows(self, flow: str) -> bool:
        """True when a flow of this name, of whatever dataset, has state."""

    def taken(self, rename: Rename) -> str | None:
        """What lies under the new name although its like lies under the old one too, or None."""


def renames(
    names: NewNames, graph: ResolvedGraph, naming: Naming, stored: StoredNames, place: Location
) -> tuple[Rename, ...]:
    """The renames that are still to be done, datasets first.

    An entry whose old name has nothing left in the storage is done, and means nothing any more.

    Raises:
        Problems: an old name is still in the code, a new one is not or is taken, or names lead on from one another.
    """
    problems: list[PipelineError] = []
    found: list[Rename] = []
    datasets = _datasets(names.datasets, naming, place, problems)
    before = {new: old for old, new in datasets.items()}
    for old, new in datasets.items():
        dataset = graph.by_name.get(new)
        view = dataset is not None and dataset.kind is Kind.PERSISTED_VIEW
        rename = Rename(Renamed.DATASET, str(old), str(new), new, old, view)
        known = [str(known.name) for known in graph.datasets if known.kind.kept]
        old_defined = old in graph.by_name or old in graph.absent
        problem = _refused(rename, old_defined, dataset is not None and dataset.kind.kept, known, stored, place)
        problems += [problem] if problem else []
        found += [rename] if problem is None and stored.pending(rename) else []
    defined = graph.by_flow.keys() | {away.name for away in graph.away}
    for old_flow, new_flow in _flows(names.flows, place, problems).items():
        flow = graph.by_flow.get(new_flow)
        target = flow.target if flow is not None else QualifiedName(new_flow)
        rename = Rename(Renamed.FLOW, old_flow, new_flow, target, before.get(target, target))
        known = [known.name for known in graph.stored_flows]
        problem = _refused(rename, old_flow in defined, flow is not None, known, stored, place)
        if problem is None and flow is not None and graph.by_name[target].members and stored.knows(old_flow):
            # What stands for its targets is called as the flow is.
            problem = PipelineError("RENAME.SEVERAL_TARGETS", location=place, old=old_flow, new=new_flow)
        problems += [problem] if problem else []
        found += [rename] if problem is None and flow is not None and stored.pending(rename) else []
    raise_all(problems)
    return tuple(found)


def _refused(
    rename: Rename,
    old_defined: bool,  # noqa: FBT001 - two questions that the caller has answered
    new_defined: bool,  # noqa: FBT001 - the same
    known: list[str],
    stored: StoredNames,
    place: Location,
) -> PipelineError | None:
    what, old, new = rename.what.value, rename.old, rename.new
    if old_defined:
        return PipelineError("RENAME.STILL_DEFINED", location=place, what=what, old=old, new=new)
    if not new_defined:
        # Where a flow lies is not known without its definition.
        left = stored.pending(rename) if rename.what is Renamed.DATASET else stored.knows(old)
        if not left:
            return None
        return PipelineError(
            "RENAME.NOT_DEFINED", location=place, what=what, old=old, new=new, suggestion=did_you_mean(new, known)
        )
    taken = stored.taken(rename)
    if taken is not None:
        return PipelineError("RENAME.TAKEN", location=place, what=what, old=old, new=new, path=taken)
    return None


def _datasets(
    texts: Mapping[str, str], naming: Naming, place: Location, problems: list[PipelineError]
) -> dict[QualifiedName, QualifiedName]:
    found: dict[QualifiedName, QualifiedName] = {}
    for texts_of in texts.items():
        try:
            old, new = map(naming.canonical, texts_of)
        except InvalidName as invalid:
            problems.append(PipelineError("RENAME.INVALID", location=place, reason=invalid))
            continue
        found[old] = new
    _refuse_chains(found, place, problems)
    return found


def _flows(texts: Mapping[str, str], place: Location, problems: list[PipelineError]) -> dict[str, str]:
    _refuse_chains(texts, place, problems)
    return dict(texts)


def _refuse_chains(names: Mapping[Any, Any], place: Location, problems: list[PipelineError]) -> None:
    seen: dict[Any, Any] = {}
    for old, new in names.items():
        if new in names or new in seen:
            problems.append(PipelineError("RENAME.CHAIN", location=place, old=old, new=new))
        seen[new] = old

"""A project resolved for what is asked of one dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.errors import PipelineError, raise_all
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import dataset_name
from headrace.graph.unavailable_sources import distinct_errors
from headrace.model.datasets import Kind
from headrace.model.names import Naming, QualifiedName
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.project.inspection.explain_dataset import explanation
from headrace.project.inspection.explanation import Explanation
from headrace.project.inspection.preview import Previewer
from headrace.project.inspection.recompute import recomputed
from headrace.project.planning.plan_update import Planning
from headrace.project.resolution.resolve_request import Resolved, ResolveRequest
from headrace.project.resolution.resolver import Resolver
from headrace.settings.settings import Settings
from headrace.storage.change_detection import StoredState


@dataclass(frozen=True)
class OneDataset:
    """A dataset in a resolved project."""

    resolved: Resolved
    name: QualifiedName

    @property
    def graph(self) -> ResolvedGraph:
        """The graph of the project."""
        return self.resolved.graph


def resolve_dataset(
    resolver: Resolver, request: ResolveRequest, name: str, naming: Naming, *, partly: bool
) -> OneDataset:
    """The project with all flows of a dataset, or *partly* with some, even if other sources are unavailable.

    Args:
        resolver: of the project.
        request: for an update of everything, which skips unavailable sources.
        name: of the dataset, in any spelling.
        naming: resolves names to qualified ones.
        partly: do without the flows of the dataset whose sources are unavailable, if it has others.

    Raises:
        Problems: the project is wrong, or a source of the dataset is unavailable.
        PipelineError: DATASET.UNKNOWN.
    """
    resolved = resolver.resolve(replace(request, known=()))
    dataset = dataset_name(resolved.graph, name, naming)
    if not partly or dataset in resolved.graph.unavailable_datasets:
        raise_all(distinct_errors(resolved.graph.unavailable_into(dataset)))
    return OneDataset(resolved, dataset)


def preview_rows(
    one: OneDataset, rows: int, state: StoredState, settings: Settings, redact: Callable[[str], str]
) -> Preview:
    """Some rows of a dataset, computed from the current tables.

    Args:
        one: the dataset.
        rows: how many.
        state: the current tables.
        settings: of the project.
        redact: removes secrets from error messages.

    Raises:
        PipelineError: SINK.NO_ROWS; the error with which a flow fails.
    """
    _check_has_rows(one)
    return Previewer(one.graph, one.resolved.catalog, state, settings, redact).preview(one.name, rows)


def recomputed_rows(one: OneDataset, state: StoredState) -> Rows:
    """All rows of a dataset, with streams read as batches.

    Raises:
        PipelineError: SINK.NO_ROWS, RECOMPUTE.INPUT_MISSING.
    """
    _check_has_rows(one)
    return recomputed(one.graph, one.name, one.resolved.catalog, state)


def explained(one: OneDataset, planning: Planning, settings: Settings, now_s: float) -> Explanation:
    """The dataset with its table, its flows, their positions, and what the next update would do with them.

    Args:
        one: the dataset.
        planning: plans the next update.
        settings: the pipeline's.
        now_s: the time, in seconds since 1970.
    """
    return explanation(one.graph, one.graph.by_name[one.name], planning, settings, now_s)


def _check_has_rows(one: OneDataset) -> None:
    """Refuse a sink, which has no rows of its own.

    Raises:
        PipelineError: SINK.NO_ROWS.
    """
    if one.graph.by_name[one.name].kind is Kind.SINK:
        inputs = {str(given.name): None for flow in one.graph.flows_into(one.name) for given in flow.analysis.inputs}
        raise PipelineError("SINK.NO_ROWS", name=one.name, inputs=", ".join(inputs) or "its upstream tables")

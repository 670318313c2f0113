"""What the storage has that the code does not define."""

from __future__ import annotations

from headrace.graph.resolved import ResolvedGraph
from headrace.model.names import QUARANTINE_SUFFIX, Naming
from headrace.plan.inactive import Inactive
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import table_of
from headrace.storage.inventory import stored_flows, stored_tables
from headrace.storage.renaming import CurrentNames
from headrace.storage.view_definitions import view_files


def inactive_entries(
    graph: ResolvedGraph, layout: StorageLayout, naming: Naming, names: CurrentNames
) -> tuple[Inactive, ...]:
    """Tables, flows and persisted views that the code does not define.

    Omits the flows of undefined tables, and flows whose state was removed already.

    Args:
        graph: what the code defines.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        names: names that differ between code and storage because a rename is pending.
    """
    defined = {dataset.name: dataset.kind for dataset in graph.datasets}
    defined |= {name: dataset.kind for name, dataset in graph.unavailable_datasets.items()}
    known = {name for name, kind in defined.items() if kind.stored} | names.datasets.keys()
    declared = [*(dataset.dataset for dataset in graph.datasets), *graph.unavailable_datasets.values()]
    known |= {table for dataset in declared if dataset.sink and (table := table_of(dataset.sink)) is not None}
    tables = {
        name: path
        for name, path in stored_tables(layout, naming)
        if name not in known and not name.name.endswith(QUARANTINE_SUFFIX)
    }
    found = [Inactive(str(name), path) for name, path in tables.items()]
    running = {(flow.target, flow.name) for flow in graph.stored_flows}
    running |= {
        (unavailable.target, unavailable.name)
        for unavailable in graph.unavailable
        if unavailable.dataset.kind.has_flows
    }
    found += [
        Inactive(str(names.of(flow)[0]), str(flow.file.parent), flow.name)
        for flow in stored_flows(layout, naming)
        if flow.has_run and not flow.record.cleaned and flow.dataset not in tables and names.of(flow) not in running
    ]
    views = view_files(layout, naming)
    found += [
        Inactive(str(name), str(file), view=True)
        for name, file in views
        if name not in defined and name not in names.datasets
    ]
    return tuple(found)

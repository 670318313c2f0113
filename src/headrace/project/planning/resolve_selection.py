"""Resolves a project for an update whose selection depends on the graph, as ``orders+`` and ``tag:nightly`` do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.errors import Problems
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected, Selection, exact_selection
from headrace.project.resolution.resolve_request import Resolved, ResolveRequest

Resolve: TypeAlias = Callable[[ResolveRequest], Resolved]


@dataclass(frozen=True)
class ResolvedSelection:
    """A resolved project, and the selection with the names of its datasets and flows alone."""

    project: Resolved
    selection: Selection


def resolve_selection(
    resolve: Resolve,
    request: Callable[[Selection], ResolveRequest],
    selection: Selection,
    selected: Callable[[ResolvedGraph], Selected],
) -> ResolvedSelection:
    """The project, resolved for the tables that the selection clears.

    Which tables are cleared decides their columns, and only the graph says which those are. So the project is resolved
    as if the tables that are not named kept their rows, and again if the selection clears any of them.

    Args:
        resolve: resolves the project.
        request: the request for an exact selection.
        selection: what the user wants.
        selected: finds the datasets of the selection in a graph.

    Raises:
        Problems: all problems of the project, or of the selection.
    """
    if selection.is_exact:
        return ResolvedSelection(resolve(request(selection)), selection)
    if not (selection.full_refresh or selection.full_refresh_all):
        project = resolve(request(selection))
        return ResolvedSelection(project, exact_selection(selection, selected(project.graph)))
    try:
        first = resolve(request(selection))
    except Problems:
        # A query may fit only the new columns of the tables that the selection clears.
        first = resolve(request(Selection(full_refresh_all=True)))
    exact = exact_selection(selection, selected(first.graph))
    return ResolvedSelection(resolve(request(exact)), exact)

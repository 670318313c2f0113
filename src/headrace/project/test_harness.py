"""What a test puts in place of the real thing, when it runs a project on rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.datasets import Definitions
from headrace.model.names import QualifiedName
from headrace.project.lease_holders import USUAL_TERMS, LeaseTerms
from headrace.runtime.failpoints import Failpoints, walk_past


def as_declared(definitions: Definitions) -> Definitions:
    """The definitions as the files declare them."""
    return definitions


@dataclass(frozen=True)
class Harness:
    """A run with some datasets stood in for.

    Args:
        at: is told each point that the update passes; an exception stops it there.
        rewrite: may put other datasets and flows in the place of those that the files declare.
        given: datasets whose tables are there already, so that no update touches them.
        only: the datasets to look at; others are resolved only when these read them. Empty: all.
        terms: how long a holder of the lease is believed to live.
    """

    at: Failpoints = walk_past
    rewrite: Callable[[Definitions], Definitions] = as_declared
    given: frozenset[QualifiedName] = frozenset()
    only: frozenset[QualifiedName] = frozenset()
    terms: LeaseTerms = USUAL_TERMS


REAL = Harness()

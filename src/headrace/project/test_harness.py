"""Replacements that a test makes when it runs a project on its own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.model.datasets import Definitions
from headrace.model.names import QualifiedName
from headrace.project.lease_holders import DEFAULT_TIMING, LeaseTiming
from headrace.runtime.failpoints import Failpoints, no_failpoint


def as_declared(definitions: Definitions) -> Definitions:
    """The definitions as the files declare them."""
    return definitions


def utc_now() -> datetime:
    """The time of day."""
    return datetime.now(tz=UTC)


@dataclass(frozen=True)
class Harness:
    """The replacements for one test.

    Args:
        failpoints: called at each failpoint that the update passes; an exception stops it there.
        rewrite: may replace declared datasets and flows.
        given: datasets whose tables exist already, so that no update changes them.
        only: the datasets to resolve, with their inputs. Empty: all.
        lease_timing: of the lease.
        clock: the time of events, with a zone.
    """

    failpoints: Failpoints = no_failpoint
    rewrite: Callable[[Definitions], Definitions] = as_declared
    given: frozenset[QualifiedName] = frozenset()
    only: frozenset[QualifiedName] = frozenset()
    lease_timing: LeaseTiming = DEFAULT_TIMING
    clock: Callable[[], datetime] = utc_now


REAL = Harness()

"""All rules."""

from __future__ import annotations

from functools import cache

from headrace.lint.rule_families import (
    batches,
    checkpoints,
    deliveries,
    distinct_counts,
    joins,
    merges,
    monitoring,
    operations,
    pipelines,
    platform,
    precedence,
    sources,
    state,
    timeouts,
    writers,
)
from headrace.lint.rules import Rule, rule

# Found by comparing the suppression comments with the findings.
SUPPRESSION = rule("unused-suppression")
RULES: tuple[Rule, ...] = (
    *distinct_counts.RULES,
    *operations.RULES,
    *state.RULES,
    *timeouts.RULES,
    *writers.RULES,
    *checkpoints.RULES,
    *batches.RULES,
    *deliveries.RULES,
    *merges.RULES,
    *sources.RULES,
    *joins.RULES,
    *monitoring.RULES,
    *precedence.RULES,
    *pipelines.RULES,
    *platform.RULES,
    SUPPRESSION,
)


@cache
def rule_ids() -> frozenset[str]:
    """The ids of all rules."""
    return frozenset(known.id for known in RULES)


def rule_of(rule_id: str) -> Rule | None:
    """A rule by its id."""
    return next((known for known in RULES if known.id == rule_id), None)

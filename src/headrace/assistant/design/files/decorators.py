"""Decorators of tables: comment, layout, trigger, and expectations with the action of the requirements."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.assistant.design.blueprint import Blueprint, Dataset
from headrace.assistant.design.decisions.layout import layout_of
from headrace.assistant.design.decisions.triggers import interval_text
from headrace.assistant.design.files.python_text import call, literal, mapping
from headrace.assistant.design.requirements import ErrorPolicy

_ACTIONS = {
    ErrorPolicy.QUARANTINE: "expect_all_or_quarantine",
    ErrorPolicy.DROP: "expect_all_or_drop",
    ErrorPolicy.FAIL: "expect_all_or_fail",
    # A record that can be read, and breaks a rule.
    ErrorPolicy.DEAD_LETTER: "expect_all_or_quarantine",
}


def table_decorator(dataset: Dataset, blueprint: Blueprint, comment: str) -> str:
    """The decorator of a streaming table or a materialized view."""
    name = "dp.table" if dataset.is_stream else "dp.materialized_view"
    return call(f"@{name}", table_arguments(dataset, blueprint, comment))


def table_arguments(dataset: Dataset, blueprint: Blueprint, comment: str, *, with_conf: bool = True) -> list[str]:
    """The arguments of a table, as code."""
    layout = layout_of(dataset)
    found = [f"comment={literal(comment)}", f"table_properties={literal({'quality': dataset.kind.layer})}"]
    if layout.partition_day_of:
        found.append(f"partition_cols={literal([f'{layout.partition_day_of}_day'])}")
    if layout.cluster_by:
        found.append(f"cluster_by={literal(list(layout.cluster_by))}")
    if with_conf and (confs := trigger_confs(dataset, blueprint)):
        found.append(f"spark_conf={literal(confs)}")
    return found


def trigger_confs(dataset: Dataset, blueprint: Blueprint) -> dict[str, str]:
    """The settings of a flow that is part of a continuous update."""
    if not blueprint.is_continuous:
        return {}
    return {"pipelines.trigger.interval": interval_text(dataset, blueprint)}


def expectation_lines(rules: Mapping[str, str], policy: ErrorPolicy | None) -> list[str]:
    """The decorator of expectations; no line without rules."""
    if not rules:
        return []
    action = _ACTIONS[policy or ErrorPolicy.QUARANTINE]
    one = mapping({name: literal(condition) for name, condition in rules.items()})
    return [call(f"@dp.{action}", [one])]

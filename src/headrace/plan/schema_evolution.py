"""Schema evolution: the changes that bring an existing table to its declaration, or why that is impossible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from headrace.errors import PipelineError
from headrace.graph.new_tables import MAPPING, needs_column_mapping
from headrace.graph.resolved import ResolvedDataset
from headrace.model.datasets import PRIVATE_PROPERTY, is_private
from headrace.model.properties import STRICT_PROPERTY, is_strict, needed_features
from headrace.model.schema import Schema
from headrace.model.type_changes import FieldChange, SchemaChange, schema_change
from headrace.plan.deployed import DeployedLayout, DeployedTable
from headrace.plan.steps import TableChange, TableStep

WIDENING_PROPERTY = "delta.enableTypeWidening"


class EvolvedBy(Enum):
    """What applies a changed schema to a table."""

    STEP = "a step before its flows run"
    COMPUTATION = "its next computation, which a change makes due"
    BATCH = "its next batch, which comes with new input alone"


def evolution(
    dataset: ResolvedDataset,
    deployed: DeployedTable,
    layout: DeployedLayout,
    evolved_by: EvolvedBy,
    *,
    full_refresh: bool,
) -> tuple[TableStep | None, PipelineError | None]:
    """The step that evolves a table to its declaration, None if it is up to date; or the problem that prevents it.

    Args:
        dataset: as declared and resolved now.
        deployed: the table in the storage.
        layout: its clustering and protocol.
        evolved_by: what applies the schema to the table.
        full_refresh: the update clears the table and computes it again.
    """
    declared = dataset.dataset
    before, after = deployed.schema, dataset.code_schema
    if evolved_by is not EvolvedBy.STEP:
        # A commit that replaces the table makes all its columns nullable, whatever is declared.
        before, after = before.nullable, after.nullable
    change = schema_change(before, after)
    problem = None if full_refresh else _refused(dataset, deployed, change, evolved_by)
    if problem is not None:
        return None, problem
    if evolved_by is not EvolvedBy.STEP:
        change = SchemaChange(change.result)
    properties = _changed_properties(declared.properties, deployed.properties, layout)
    properties |= _needed_properties(dataset, change, deployed, layout)
    if is_private(deployed.properties) and not declared.private:
        properties[PRIVATE_PROPERTY] = "false"
    if is_strict(deployed.properties) and STRICT_PROPERTY not in declared.properties:
        properties[STRICT_PROPERTY] = "false"
    clustered = _changed_clustering(dataset, deployed, layout)
    # An empty text removes a comment; no comment in the code keeps the table's.
    comment = declared.comment if declared.comment not in (None, deployed.comment or "") else None
    comments = _changed_comments(deployed.schema, dataset.code_schema)
    changes = [f'adds "{field}"' for field in change.added]
    changes += [f'widens "{field}" from {field.before} to {field.after}' for field in change.widened]
    changes += [f'makes "{name}" nullable' for name in change.relaxed]
    changes += [f'sets property "{key}"' for key in properties if key != PRIVATE_PROPERTY]
    changes += ["becomes private" if declared.private else "becomes public"] if PRIVATE_PROPERTY in properties else []
    changes += ["sets the comment"] if comment is not None else []
    changes += [f'sets the comment of "{column}"' for column, _ in comments]
    if evolved_by is EvolvedBy.COMPUTATION and declared.schema is not None:
        # Nothing else makes the computation due.
        changes += [f'adds "{c.name}"' for c in dataset.schema.columns if deployed.schema.find(c.name) is None]
    if evolved_by is EvolvedBy.COMPUTATION and _folded(declared.partition_by) != _folded(deployed.partition_by):
        changes.append(f"partitions by {_listed(declared.partition_by)}")
    if clustered is not None:
        changes.append(f"clusters by {_listed(clustered)}")
    if not changes:
        return None, None
    step = TableStep(
        dataset.name,
        TableChange.EVOLVE,
        ", ".join(changes),
        columns=tuple(map(str, change.added)),
        widened=change.widened,
        relaxed=change.relaxed,
        properties=tuple(properties.items()),
        comment=comment,
        column_comments=comments,
        cluster_by=clustered,
    )
    return step, None


def _needed_properties(
    dataset: ResolvedDataset, change: SchemaChange, deployed: DeployedTable, layout: DeployedLayout
) -> dict[str, str]:
    """Properties that the table needs before its schema can change."""
    features = needed_features(dataset.code_schema)
    needed = {feature: "supported" for feature in features if layout.satisfies(feature, "supported") is False}
    if needs_column_mapping(dataset.code_schema, dataset.dataset.properties, deployed.properties):
        needed |= MAPPING
    if change.widened and deployed.properties.get(WIDENING_PROPERTY) != "true":
        needed[WIDENING_PROPERTY] = "true"
    return needed


def _changed_properties(
    declared: Mapping[str, str], deployed: Mapping[str, str], layout: DeployedLayout
) -> dict[str, str]:
    # Delta stores its own properties in its own spelling.
    delta_properties = {key.casefold(): value for key, value in deployed.items() if key.casefold().startswith("delta.")}
    changed = {}
    for key, value in declared.items():
        is_met = layout.satisfies(key, value)
        if is_met is None:
            is_met = deployed.get(key, delta_properties.get(key.casefold())) == value
        if not is_met:
            changed[key] = value
    return changed


def _changed_comments(table: Schema, code: Schema) -> tuple[tuple[str, str], ...]:
    """Columns whose comment differs in the code."""
    pairs = [
        (found.name, column.comment, found.comment) for column in code.columns if (found := table.find(column.name))
    ]
    return tuple((name, now) for name, now, was in pairs if now not in (None, was or ""))


def _changed_clustering(
    dataset: ResolvedDataset, deployed: DeployedTable, layout: DeployedLayout
) -> tuple[str, ...] | None:
    """The declared columns if the table is clustered by others; None if it is not, or if unknown."""
    wanted = dataset.dataset.cluster_by
    if layout.cluster_by is None or deployed.partition_by or _folded(wanted) == _folded(layout.cluster_by):
        return None
    return wanted


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in names)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "nothing"


def _refused(
    dataset: ResolvedDataset, deployed: DeployedTable, change: SchemaChange, evolved_by: EvolvedBy
) -> PipelineError | None:
    """Why a table cannot evolve to its declaration, with its rows or by its next computation."""
    declared = dataset.dataset
    if is_strict(declared.properties):
        replaced = evolved_by is not EvolvedBy.STEP
        fields = _all_changes(change, deployed.schema, dataset.code_schema, replaced=replaced)
        if fields:
            return _problem("TABLE.STRICT", dataset, deployed, fields)
    if evolved_by is EvolvedBy.COMPUTATION:
        return None
    # Batches that replace the table also replace its columns, but without input the partitioning would never change.
    refused = change.refused if evolved_by is EvolvedBy.STEP else ()
    if evolved_by is EvolvedBy.STEP and declared.properties.get(WIDENING_PROPERTY, "true").casefold() != "true":
        refused += change.widened
    if refused:
        return _problem("TABLE.TYPE_CHANGED", dataset, deployed, refused)
    if _folded(declared.partition_by) != _folded(deployed.partition_by):
        return PipelineError(
            "TABLE.PARTITIONS_CHANGED",
            location=declared.location,
            name=dataset.name,
            now=", ".join(declared.partition_by) or "nothing",
            before=", ".join(deployed.partition_by) or "nothing",
            table=deployed.schema,
            query=dataset.code_schema,
        )
    return None


def _all_changes(change: SchemaChange, table: Schema, code: Schema, *, replaced: bool) -> tuple[FieldChange, ...]:
    relaxed = [FieldChange((name,), "not null", "nullable") for name in change.relaxed]
    removed = [FieldChange((c.name,), c.type_text, "") for c in table.columns if replaced and code.find(c.name) is None]
    return (*change.refused, *change.widened, *change.added, *relaxed, *removed)


def _problem(
    code: str, dataset: ResolvedDataset, deployed: DeployedTable, fields: Iterable[FieldChange]
) -> PipelineError:
    return PipelineError(
        code,
        location=dataset.dataset.location,
        name=dataset.name,
        changes="; ".join(map(_describe, fields)),
        table=deployed.schema,
        query=dataset.code_schema,
    )


def _describe(field: FieldChange) -> str:
    if not field.before:
        return f'"{field}" is missing in the table and {field.after} in the query'
    if not field.after:
        return f'"{field}" is {field.before} in the table and missing in the query'
    return f'"{field}" is {field.before} in the table and {field.after} in the query'

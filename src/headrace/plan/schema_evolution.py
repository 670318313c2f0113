"""What has to change in a table that is there, so that it is as declared now; or why it cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from headrace.errors import PipelineError
from headrace.graph.new_tables import MAPPING, is_mapped_for
from headrace.graph.resolved import ResolvedDataset
from headrace.model.datasets import PRIVATE_PROPERTY, is_private
from headrace.model.properties import STRICT_PROPERTY, is_strict, needed_features
from headrace.model.schema import Schema
from headrace.model.type_changes import FieldChange, SchemaChange, schema_change
from headrace.plan.deployed import DeployedLayout, DeployedTable
from headrace.plan.steps import TableChange, TableStep

WIDENING_PROPERTY = "delta.enableTypeWidening"


class Brought(Enum):
    """What brings a changed schema to a table."""

    BY_STEP = "a step before its flows run"
    BY_COMPUTATION = "its next computation, which a change makes due"
    BY_BATCH = "its next batch, which comes with new input alone"


def evolution(
    dataset: ResolvedDataset, deployed: DeployedTable, layout: DeployedLayout, brought: Brought, *, full_refresh: bool
) -> tuple[TableStep | None, PipelineError | None]:
    """The step that brings a table to what is declared, or None when it is; or the problem that stands against it.

    Args:
        dataset: as declared and resolved now.
        deployed: the table in the storage.
        layout: its clustering and protocol.
        brought: by what the schema comes to the table.
        full_refresh: the update clears the table and computes it again.
    """
    declared = dataset.dataset
    was, now = deployed.schema, dataset.in_code
    if brought is not Brought.BY_STEP:
        # What replaces the table makes all its columns nullable, whatever they are declared as.
        was, now = was.nullable, now.nullable
    change = schema_change(was, now)
    problem = None if full_refresh else _refused(dataset, deployed, change, brought)
    if problem is not None:
        return None, problem
    if brought is not Brought.BY_STEP:
        change = SchemaChange(change.result)
    properties = _changed_properties(declared.properties, deployed.properties, layout)
    properties |= _needed_properties(dataset, change, deployed, layout)
    if is_private(deployed.properties) and not declared.private:
        properties[PRIVATE_PROPERTY] = "false"
    if is_strict(deployed.properties) and STRICT_PROPERTY not in declared.properties:
        properties[STRICT_PROPERTY] = "false"
    clustered = _changed_clustering(dataset, deployed, layout)
    # An empty text takes a comment away; none in the code leaves the table's as it is.
    comment = declared.comment if declared.comment not in (None, deployed.comment or "") else None
    comments = _changed_comments(deployed.schema, dataset.in_code)
    said = [f'adds "{field}"' for field in change.added]
    said += [f'widens "{field}" from {field.before} to {field.after}' for field in change.widened]
    said += [f'makes "{name}" nullable' for name in change.relaxed]
    said += [f'sets property "{key}"' for key in properties if key != PRIVATE_PROPERTY]
    said += ["becomes private" if declared.private else "becomes public"] if PRIVATE_PROPERTY in properties else []
    said += ["sets the comment"] if comment is not None else []
    said += [f'sets the comment of "{column}"' for column, _ in comments]
    if brought is Brought.BY_COMPUTATION and declared.schema is not None:
        # Nothing else tells that it is due.
        said += [f'adds "{c.name}"' for c in dataset.schema.columns if deployed.schema.find(c.name) is None]
    if brought is Brought.BY_COMPUTATION and _folded(declared.partition_by) != _folded(deployed.partition_by):
        said.append(f"partitions by {_listed(declared.partition_by)}")
    if clustered is not None:
        said.append(f"clusters by {_listed(clustered)}")
    if not said:
        return None, None
    step = TableStep(
        dataset.name,
        TableChange.EVOLVE,
        ", ".join(said),
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
    """What has to be switched on in the table before its schema can change."""
    features = needed_features(dataset.in_code)
    needed = {feature: "supported" for feature in features if layout.holds(feature, "supported") is False}
    if is_mapped_for(dataset.in_code, dataset.dataset.properties, deployed.properties):
        needed |= MAPPING
    if change.widened and deployed.properties.get(WIDENING_PROPERTY) != "true":
        needed[WIDENING_PROPERTY] = "true"
    return needed


def _changed_properties(
    declared: Mapping[str, str], deployed: Mapping[str, str], layout: DeployedLayout
) -> dict[str, str]:
    # Delta spells its own properties as it knows them.
    spelled = {key.casefold(): value for key, value in deployed.items() if key.casefold().startswith("delta.")}
    changed = {}
    for key, value in declared.items():
        held = layout.holds(key, value)
        if held is None:
            held = deployed.get(key, spelled.get(key.casefold())) == value
        if not held:
            changed[key] = value
    return changed


def _changed_comments(table: Schema, code: Schema) -> tuple[tuple[str, str], ...]:
    """Columns of the table whose comments are others in the code."""
    pairs = [
        (found.name, column.comment, found.comment) for column in code.columns if (found := table.find(column.name))
    ]
    return tuple((name, now) for name, now, was in pairs if now not in (None, was or ""))


def _changed_clustering(
    dataset: ResolvedDataset, deployed: DeployedTable, layout: DeployedLayout
) -> tuple[str, ...] | None:
    """The declared columns when the table is clustered otherwise; None when not, or when that cannot be told."""
    wanted = dataset.dataset.cluster_by
    if layout.cluster_by is None or deployed.partition_by or _folded(wanted) == _folded(layout.cluster_by):
        return None
    return wanted


def _folded(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.casefold() for name in names)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "nothing"


def _refused(
    dataset: ResolvedDataset, deployed: DeployedTable, change: SchemaChange, brought: Brought
) -> PipelineError | None:
    """Why a table cannot be brought to what is declared now, with its rows kept or by its next computation."""
    declared = dataset.dataset
    if is_strict(declared.properties):
        replaced = brought is not Brought.BY_STEP
        fields = _all_changes(change, deployed.schema, dataset.in_code, replaced=replaced)
        if fields:
            return _problem("TABLE.STRICT", dataset, deployed, fields)
    if brought is Brought.BY_COMPUTATION:
        return None
    # Partitions alone would stay as they are, however long no input comes; what its batches bring fits its columns.
    refused = change.refused if brought is Brought.BY_STEP else ()
    if brought is Brought.BY_STEP and declared.properties.get(WIDENING_PROPERTY, "true").casefold() != "true":
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
            query=dataset.in_code,
        )
    return None


def _all_changes(change: SchemaChange, table: Schema, code: Schema, *, replaced: bool) -> tuple[FieldChange, ...]:
    relaxed = [FieldChange((name,), "not null", "nullable") for name in change.relaxed]
    gone = [FieldChange((c.name,), c.type_text, "") for c in table.columns if replaced and code.find(c.name) is None]
    return (*change.refused, *change.widened, *change.added, *relaxed, *gone)


def _problem(
    code: str, dataset: ResolvedDataset, deployed: DeployedTable, fields: Iterable[FieldChange]
) -> PipelineError:
    return PipelineError(
        code,
        location=dataset.dataset.location,
        name=dataset.name,
        changes="; ".join(map(_said, fields)),
        table=deployed.schema,
        query=dataset.in_code,
    )


def _said(field: FieldChange) -> str:
    if not field.before:
        return f'"{field}" is missing in the table and {field.after} in the query'
    if not field.after:
        return f'"{field}" is {field.before} in the table and missing in the query'
    return f'"{field}" is {field.before} in the table and {field.after} in the query'

"""Creates, widens and clears the quarantine tables of datasets."""

from __future__ import annotations

import time
import uuid
from functools import partial, reduce

from headrace.delta_log.tables import table_exists
from headrace.expectations.compile import Rules
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ChangeFlow, RefreshFlow
from headrace.model.expectations import Action
from headrace.model.schema import Schema
from headrace.spark.delta.fencing import write_fenced
from headrace.spark.delta.first_commit import make_plain_table
from headrace.spark.expectations.quarantine_table import widen_quarantine
from headrace.spark.expectations.quarantine_writer import create_quarantine, new_quarantine
from headrace.spark.update.context import UpdateContext


def prepare_quarantine(context: UpdateContext, dataset: ResolvedDataset) -> None:
    """Create the quarantine of a dataset that needs one, or widen it to the columns of today."""
    flows = context.graph.flows_into(dataset.name)
    merges = any(isinstance(flow, ChangeFlow) for flow in flows)
    if merges or Rules(dataset.dataset.expectations).with_action(Action.QUARANTINE):
        path = context.layout.quarantine(context.naming, dataset.name)
        if not table_exists(path):
            _create(context, path, _evaluated_schema(context, dataset).nullable)
        elif not all(isinstance(flow, RefreshFlow) for flow in flows):
            widen = partial(widen_quarantine, context.session, path, _evaluated_schema(context, dataset))
            write_fenced(path, context.guard.fencing_token, context.guard.fence, widen)


def clear_quarantine(context: UpdateContext, dataset: ResolvedDataset) -> None:
    """Empty the quarantine of a dataset, if it has one."""
    path = context.layout.quarantine(context.naming, dataset.name)
    if table_exists(path):
        clear = partial(create_quarantine, context.session, path, _evaluated_schema(context, dataset).nullable)
        write_fenced(path, context.guard.fencing_token, context.guard.fence, clear)


def _create(context: UpdateContext, path: str, columns: Schema) -> None:
    """Create the table, without Spark if possible."""
    token = context.guard.fencing_token
    table = new_quarantine(columns, context.catalog.default_properties, token)
    if not make_plain_table(path, table, int(time.time() * 1000), str(uuid.uuid4())):
        create_quarantine(context.session, path, columns, token)


def _evaluated_schema(context: UpdateContext, dataset: ResolvedDataset) -> Schema:
    """The schema of the rows that a dataset's rules evaluate: its own, or that of its change events."""
    flows = context.graph.flows_into(dataset.name)
    schemas = [Schema.from_json(flow.feed.source_json) for flow in flows if isinstance(flow, ChangeFlow)]
    return reduce(Schema.merged, schemas) if schemas else dataset.schema

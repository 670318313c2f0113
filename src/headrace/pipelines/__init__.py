"""What a pipeline's files import: ``from headrace import pipelines as dp``.

While a project's files load, ``from pyspark import pipelines as dp`` and ``import dlt`` give the same functions.
"""

from headrace.pipelines.changes import create_auto_cdc_flow, replace_flow
from headrace.pipelines.debezium import debezium
from headrace.pipelines.decorators import (
    create_streaming_table,
    enable_local_execution,
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_all_or_quarantine,
    expect_or_drop,
    expect_or_fail,
    expect_or_quarantine,
    materialized_view,
    read,
    read_stream,
    streaming_table,
    table,
    temporary_view,
    view,
)
from headrace.pipelines.features import create_feature_table
from headrace.pipelines.flows import append_flow, update_flow
from headrace.pipelines.hooks import on_event_hook
from headrace.pipelines.metrics import metric
from headrace.pipelines.sinks import create_sink, foreach_batch_sink
from headrace.pipelines.snapshots import create_auto_cdc_from_snapshot_flow
from headrace.pipelines.table_rules import foreign_key, fresh, on_time, primary_key, row_count, unique
from headrace.pipelines.views import persisted_view

# The vendor's older spellings.
apply_changes = create_auto_cdc_flow
apply_changes_from_snapshot = create_auto_cdc_from_snapshot_flow
create_table = table
create_view = view
create_target_table = create_streaming_table
create_streaming_live_table = create_streaming_table
readStream = read_stream  # noqa: N816 - the vendor's name

__all__ = [
    "append_flow",
    "apply_changes",
    "apply_changes_from_snapshot",
    "create_auto_cdc_flow",
    "create_auto_cdc_from_snapshot_flow",
    "create_feature_table",
    "create_sink",
    "create_streaming_live_table",
    "create_streaming_table",
    "create_table",
    "create_target_table",
    "create_view",
    "debezium",
    "enable_local_execution",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_all_or_quarantine",
    "expect_or_drop",
    "expect_or_fail",
    "expect_or_quarantine",
    "foreach_batch_sink",
    "foreign_key",
    "fresh",
    "materialized_view",
    "metric",
    "on_event_hook",
    "on_time",
    "persisted_view",
    "primary_key",
    "read",
    "readStream",
    "read_stream",
    "replace_flow",
    "row_count",
    "streaming_table",
    "table",
    "temporary_view",
    "unique",
    "update_flow",
    "view",
]

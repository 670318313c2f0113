"""The metrics of a pipeline, as data. Names follow OpenTelemetry and Prometheus; ``pipeline`` is a label of each."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.metrics import cost_metrics
from headrace.metrics.metric import Metric, MetricKind

_C, _G = MetricKind.COUNTER, MetricKind.GAUGE
_FLOW, _TABLE, _SINK = ("flow",), ("dataset",), ("flow", "sink")

UPDATES = Metric("headrace.updates", "headrace_updates_total", _C, "{update}", ("state", "cause"), "Ended updates.")
UPDATE_STATE = Metric(
    "headrace.update.state",
    "headrace_update_state",
    _G,
    "1",
    ("state",),
    "1 for the state of the latest update. LOST means that its process ended without recording it.",
)
UPDATE_DURATION = Metric(
    "headrace.update.duration",
    "headrace_update_duration_seconds",
    _G,
    "s",
    ("cause",),
    "Duration of the last ended update.",
)
UPDATE_END = Metric(
    "headrace.update.last_end",
    "headrace_update_last_end_timestamp_seconds",
    _G,
    "s",
    ("state",),
    "When the last update with this state ended, in seconds since 1970.",
)
UPDATE_REFUSED = Metric(
    "headrace.update.refused",
    "headrace_update_refused",
    _G,
    "{problem}",
    ("code",),
    "Problems, by error code, that kept the latest update from starting; absent once one has started.",
)
FLOW_STATE = Metric(
    "headrace.flow.state",
    "headrace_flow_state",
    _G,
    "1",
    ("flow", "dataset", "state"),
    "1 for the state of a flow in the latest update that includes it.",
)
FLOW_FAILURES = Metric(
    "headrace.flow.failures",
    "headrace_flow_failures_total",
    _C,
    "{failure}",
    ("flow", "code"),
    "Failures by error code.",
)
FLOW_RETRIES = Metric(
    "headrace.flow.retries", "headrace_flow_retries_total", _C, "{retry}", _FLOW, "Retries of a flow."
)
BATCHES = Metric(
    "headrace.flow.batches",
    "headrace_flow_batches_total",
    _C,
    "{batch}",
    ("flow", "dataset"),
    "Batches that were committed.",
)
LAST_BATCH = Metric(
    "headrace.flow.last_batch",
    "headrace_flow_last_batch_timestamp_seconds",
    _G,
    "s",
    _FLOW,
    "When the last batch was committed, in seconds since 1970.",
)
FLOW_START = Metric(
    "headrace.flow.start",
    "headrace_flow_start_timestamp_seconds",
    _G,
    "s",
    _FLOW,
    "When the flow started in the latest update that includes it, in seconds since 1970. A retry is no start.",
)
OPEN_BATCH = Metric(
    "headrace.flow.open_batch",
    "headrace_flow_open_batch_timestamp_seconds",
    _G,
    "s",
    _FLOW,
    "When the stream planned the batch that it has not committed yet, in seconds since 1970; absent between batches.",
)
TRIGGER_INTERVAL = Metric(
    "headrace.flow.trigger.interval",
    "headrace_flow_trigger_interval_seconds",
    _G,
    "s",
    _FLOW,
    "The interval of its trigger; 0 without one.",
)
ROWS = Metric(
    "headrace.flow.rows",
    "headrace_flow_rows_total",
    _C,
    "{row}",
    ("flow", "dataset", "fate"),
    "Rows by what became of them: written, dropped, quarantined, rescued, upserted or deleted.",
)
OUTPUT_BYTES = Metric(
    "headrace.flow.output.bytes",
    "headrace_flow_output_bytes_total",
    _C,
    "By",
    ("flow", "dataset"),
    "Bytes of the files that its batches have added to the table; without batches whose commit is unknown.",
)
OUTPUT_FILES = Metric(
    "headrace.flow.output.files",
    "headrace_flow_output_files_total",
    _C,
    "{file}",
    ("flow", "dataset"),
    "The number of these files.",
)
BATCH_DURATION = Metric(
    "headrace.flow.batch.duration",
    "headrace_flow_batch_duration_seconds",
    MetricKind.HISTOGRAM,
    "s",
    _FLOW,
    "How long batches took, if that was measured; without Spark's planning if Headrace itself writes the target.",
    (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
INPUT_ROWS = Metric(
    "headrace.flow.input_rows", "headrace_flow_input_rows_total", _C, "{row}", _FLOW, "Rows that a stream has read."
)
BUSY = Metric(
    "headrace.flow.busy", "headrace_flow_busy_seconds_total", _C, "s", _FLOW, "Time that a stream spent in batches."
)
PHASES = Metric(
    "headrace.flow.phase.duration",
    "headrace_flow_phase_seconds_total",
    _C,
    "s",
    ("flow", "phase"),
    "Time that a stream spent in each phase of its batches.",
)
INPUT_RATE = Metric(
    "headrace.flow.input_rate",
    "headrace_flow_input_rows_per_second",
    _G,
    "{row}/s",
    _FLOW,
    "Rows per second that arrived at a stream, in the latest report.",
)
PROCESS_RATE = Metric(
    "headrace.flow.process_rate",
    "headrace_flow_processed_rows_per_second",
    _G,
    "{row}/s",
    _FLOW,
    "Rows per second of batch time, in the latest report.",
)
LOST_OFFSETS = Metric(
    "headrace.flow.lost_offsets",
    "headrace_flow_lost_offsets_total",
    _C,
    "{record}",
    ("flow", "topic"),
    "Offsets of a topic that were deleted before a stream read them; a loss of unknown size counts 1.",
)
LAST_LOSS = Metric(
    "headrace.flow.last_loss",
    "headrace_flow_last_loss_timestamp_seconds",
    _G,
    "s",
    ("flow", "topic"),
    "When such a loss was reported last, in seconds since 1970.",
)
LAG_OFFSETS = Metric(
    "headrace.flow.lag.offsets",
    "headrace_flow_lag_offsets",
    _G,
    "{record}",
    ("flow", "topic"),
    "Records of a topic that a stream has not read, over all partitions.",
)
LAG_FILES = Metric(
    "headrace.flow.lag.files",
    "headrace_flow_lag_files",
    _G,
    "{file}",
    ("flow", "source"),
    "Files that Auto Loader has found and not read.",
)
LAG_BYTES = Metric(
    "headrace.flow.lag.bytes",
    "headrace_flow_lag_bytes",
    _G,
    "By",
    ("flow", "source"),
    "Bytes of the unread files, or of the unread commits of a Delta table.",
)
LAG_ROWS = Metric(
    "headrace.flow.lag.rows",
    "headrace_flow_lag_rows",
    _G,
    "{row}",
    ("flow", "source"),
    "Rows of a Delta table that a stream has not read; absent if their number is unknown.",
)
LAG_COMMITS = Metric(
    "headrace.flow.lag.commits",
    "headrace_flow_lag_commits",
    _G,
    "{commit}",
    ("flow", "source"),
    "Commits of a Delta table that a stream has not read.",
)
LAG_SECONDS = Metric(
    "headrace.flow.lag.time",
    "headrace_flow_lag_seconds",
    _G,
    "s",
    ("flow", "source"),
    "Age of the oldest input that a stream has not read; 0 if it has read all. Of a topic, it counts from the first "
    "report that saw the record, so it is a little too low.",
)
BOTTLENECK = Metric(
    "headrace.flow.bottleneck",
    "headrace_flow_bottleneck",
    _G,
    "1",
    ("flow", "cause"),
    "1 for where most of the last 10 minutes of a running stream went: source, planning, checkpoint storage, query or "
    "target, or waiting for input.",
)
LOCAL_LAG = Metric(
    "headrace.dataset.lag.local",
    "headrace_dataset_local_lag_seconds",
    _G,
    "s",
    _TABLE,
    "Age of the oldest input that the flows of a dataset have not read; 0 if they have read all, absent if unknown.",
)
GLOBAL_LAG = Metric(
    "headrace.dataset.lag.global",
    "headrace_dataset_global_lag_seconds",
    _G,
    "s",
    _TABLE,
    "The local lag plus the greatest global lag of the datasets that the flows read.",
)
NEWEST_ROW = Metric(
    "headrace.dataset.newest_row",
    "headrace_dataset_newest_row_timestamp_seconds",
    _G,
    "s",
    ("dataset", "column"),
    "The newest time in the column that dp.fresh checks, in seconds since 1970; absent without times, and if only a "
    "query knows it.",
)
FRESHNESS_TARGET = Metric(
    "headrace.dataset.freshness.target",
    "headrace_dataset_freshness_target_seconds",
    _G,
    "s",
    ("dataset", "column"),
    "How old it may be, as dp.fresh says.",
)
HEALTH = Metric(
    "headrace.dataset.health",
    "headrace_dataset_health",
    _G,
    "1",
    ("dataset", "health", "signal"),
    "1 for how a dataset is: ok, unknown, warn or bad. That is the worst of its signals, which are flow (its states), "
    "checkpoint, freshness, lag, sink (waiting batches) and quarantine (open rows). signal names those that are the "
    "worst; it is empty if all are ok.",
)
SINK_WAITING_BATCHES = Metric(
    "headrace.sink.waiting.batches",
    "headrace_sink_waiting_batches",
    _G,
    "{batch}",
    _SINK,
    "Batches that wait for a sink that is down.",
)
SINK_WAITING_ROWS = Metric(
    "headrace.sink.waiting.rows", "headrace_sink_waiting_rows", _G, "{row}", _SINK, "Their rows."
)
SINK_WAITING_BYTES = Metric(
    "headrace.sink.waiting.bytes", "headrace_sink_waiting_bytes", _G, "By", _SINK, "Bytes of their files."
)
SINK_LAST_DELIVERY = Metric(
    "headrace.sink.last_delivery",
    "headrace_sink_last_delivery_timestamp_seconds",
    _G,
    "s",
    _SINK,
    "When the sink got rows last, in seconds since 1970; while batches wait, it may have been earlier.",
)
CHECKPOINT_PROBLEM = Metric(
    "headrace.checkpoint.problem",
    "headrace_checkpoint_problem",
    _G,
    "1",
    ("flow", "code"),
    "1 for the problem that keeps a flow from continuing on its checkpoint; looked for between updates.",
)
OLD_EPOCHS = Metric(
    "headrace.checkpoint.old_epochs",
    "headrace_checkpoint_old_epochs",
    _G,
    "{epoch}",
    _FLOW,
    "Checkpoints of earlier epochs of a flow, which full refreshes leave.",
)
STATE_DISK = Metric(
    "headrace.state.disk",
    "headrace_state_disk_bytes",
    _G,
    "By",
    _FLOW,
    "Bytes of the newest version of a flow's state in its checkpoint.",
)
WATERMARK_DELAY = Metric(
    "headrace.flow.watermark.delay",
    "headrace_flow_watermark_delay_seconds",
    _G,
    "s",
    _FLOW,
    "How far the watermark is behind the current time.",
)
NEWEST_EVENT_TIME = Metric(
    "headrace.flow.event_time.newest",
    "headrace_flow_event_time_newest_timestamp_seconds",
    _G,
    "s",
    _FLOW,
    "The greatest event time that a stream with a watermark has read, in seconds since 1970.",
)
STATE_BYTES = Metric(
    "headrace.state.size",
    "headrace_state_memory_bytes",
    _G,
    "By",
    ("flow", "operator"),
    "Memory that the state of an operator uses.",
)
STATE_ROWS = Metric(
    "headrace.state.rows",
    "headrace_state_rows",
    _G,
    "{row}",
    ("flow", "operator"),
    "Rows in the state of an operator; absent if Spark does not count them.",
)
STATE_CHANGES = Metric(
    "headrace.state.changes",
    "headrace_state_rows_changed_total",
    _C,
    "{row}",
    ("flow", "operator", "change"),
    "Rows of state by what happened to them: updated, removed, late or duplicate.",
)
EXPECTATIONS = Metric(
    "headrace.expectation.rows",
    "headrace_expectation_rows_total",
    _C,
    "{row}",
    ("dataset", "flow", "expectation", "action", "result"),
    "Rows that passed or failed an expectation; a rule on a whole table counts once per update.",
)
CUSTOM_TOTAL = Metric(
    "headrace.custom",
    "headrace_custom_total",
    _C,
    "1",
    ("flow", "dataset", "metric"),
    "Sums and counts of the user's own metrics over all batches.",
)
CUSTOM_VALUE = Metric(
    "headrace.custom.value",
    "headrace_custom_value",
    _G,
    "1",
    ("flow", "dataset", "metric"),
    "The user's own metrics that do not add up, such as averages: the value of the newest batch that has one.",
)
QUARANTINED = Metric(
    "headrace.quarantine.rows", "headrace_quarantine_rows", _G, "{row}", _TABLE, "Rows that wait in quarantine."
)
TABLE_ROWS = Metric("headrace.table.rows", "headrace_table_rows", _G, "{row}", _TABLE, "Rows of a table.")
TABLE_BYTES = Metric(
    "headrace.table.size", "headrace_table_size_bytes", _G, "By", _TABLE, "Bytes of its current files."
)
TABLE_FILES = Metric("headrace.table.files", "headrace_table_files", _G, "{file}", _TABLE, "Its current files.")
TABLE_VERSION = Metric("headrace.table.version", "headrace_table_version", _G, "1", _TABLE, "Its newest version.")
TABLE_COMMIT = Metric(
    "headrace.table.last_commit",
    "headrace_table_last_commit_timestamp_seconds",
    _G,
    "s",
    _TABLE,
    "When that version was written, in seconds since 1970.",
)
UNREFERENCED = Metric(
    "headrace.table.unreferenced",
    "headrace_table_unreferenced_bytes",
    _G,
    "By",
    _TABLE,
    "Bytes of files that are older than maintenance.retain, and not in the current version; looked for once an hour.",
)
INACTIVE = Metric(
    "headrace.inactive",
    "headrace_inactive_bytes",
    _G,
    "By",
    ("dataset", "flow"),
    "Bytes of a table, or of the state of a flow, that left the code; looked for once an hour.",
)
LEASE_NUMBER = Metric(
    "headrace.lease.number",
    "headrace_lease_number",
    _G,
    "1",
    ("host",),
    "The fencing token of the newest holder of the lease, which grows with every update.",
)
LEASE_AGE = Metric(
    "headrace.lease.age",
    "headrace_lease_age_seconds",
    _G,
    "s",
    ("host",),
    "Time since the holder of the lease renewed it; absent without a holder.",
)
LEASE = Metric(
    "headrace.lease.held", "headrace_lease_held", _G, "1", (), "1 while a process holds the lease of the pipeline."
)
ALERTS = Metric(
    "headrace.alerts",
    "headrace_alerts_open",
    _G,
    "{alert}",
    ("alert", "severity"),
    "Alerts that were open at the last check.",
)
FREE = Metric("headrace.storage.free", "headrace_storage_free_bytes", _G, "By", (), "Free bytes of the storage's disk.")
NEWEST_EVENT = Metric(
    "headrace.events.age",
    "headrace_events_newest_timestamp_seconds",
    _G,
    "s",
    (),
    "When the newest event was recorded, in seconds since 1970.",
)
BUILD = Metric("headrace.build.info", "headrace_build_info", _G, "1", ("version",), "1, with the version of Headrace.")
READABLE = Metric(
    "headrace.pipeline.readable",
    "headrace_pipeline_readable",
    _G,
    "1",
    (),
    "1 if `headrace serve` can read the pipeline, 0 if it can not; only in those of the server.",
)

CATALOGUE: tuple[Metric, ...] = (
    *(UPDATES, UPDATE_STATE, UPDATE_DURATION, UPDATE_END, UPDATE_REFUSED),
    *(FLOW_STATE, FLOW_FAILURES, FLOW_RETRIES, FLOW_START, TRIGGER_INTERVAL),
    *(BATCHES, LAST_BATCH, OPEN_BATCH, BATCH_DURATION, ROWS, OUTPUT_BYTES, OUTPUT_FILES),
    *(INPUT_ROWS, BUSY, PHASES, *cost_metrics.ALL, LOST_OFFSETS, LAST_LOSS),
    *(INPUT_RATE, PROCESS_RATE, LAG_OFFSETS, LAG_FILES, LAG_ROWS, LAG_COMMITS),
    *(LAG_BYTES, LAG_SECONDS, BOTTLENECK, LOCAL_LAG, GLOBAL_LAG, NEWEST_ROW, FRESHNESS_TARGET),
    HEALTH,
    *(WATERMARK_DELAY, NEWEST_EVENT_TIME),
    *(SINK_WAITING_BATCHES, SINK_WAITING_ROWS, SINK_WAITING_BYTES, SINK_LAST_DELIVERY),
    *(OLD_EPOCHS, CHECKPOINT_PROBLEM, STATE_DISK),
    *(STATE_BYTES, STATE_ROWS, STATE_CHANGES, EXPECTATIONS, CUSTOM_TOTAL, CUSTOM_VALUE, QUARANTINED),
    *(TABLE_ROWS, TABLE_BYTES, TABLE_FILES, TABLE_VERSION, TABLE_COMMIT, UNREFERENCED, INACTIVE),
    *(ALERTS, LEASE, LEASE_NUMBER, LEASE_AGE, FREE, NEWEST_EVENT, BUILD, READABLE),
)
BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in CATALOGUE}

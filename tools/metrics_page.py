"""The page of the metrics."""

from __future__ import annotations

from headrace.metrics.catalogue import CATALOGUE

_START = """\
# Metrics

`headrace metrics` prints the metrics of a pipeline in Prometheus' text format. It reads the event log and the storage,
and needs neither Java nor a running process. Counters cover all updates whose events are in the log, so they survive
restarts.

    headrace metrics
    headrace metrics --format json
    headrace metrics --file /var/lib/node_exporter/shop.prom
    headrace metrics --otlp http://collector:4318

The third form is for a collector of text files, such as that of node_exporter: call it from cron, or after each update.
The file is replaced atomically. The last one pushes to an OpenTelemetry collector. `--no-tables` skips the metrics of
tables, quarantines, checkpoints and the lag of datasets, which read the log of each table and the folder of each flow.

[`headrace serve`](../how-to/serve.md) answers Prometheus at `/metrics`, with the metrics of all its pipelines
([how to](../how-to/monitor.md#collect-metrics-with-prometheus)).

Each metric has the label `pipeline`. A scrape stores what it has read in `system/metrics.json`, so that the next one
reads only newer events. You may delete the file. Counters also include events that were removed from the log because
they expired: the log records their sums before. What needs a look at all files (`headrace_table_unreferenced_bytes`,
`headrace_inactive_bytes`, `headrace_checkpoint_problem`) is stored in `system/survey.json` and used for an hour.

"""


def metrics_page() -> str:
    """The expected text of docs/reference/metrics.md."""
    rows = ["| Prometheus | OpenTelemetry | type | unit | labels | meaning |", "|---|---|---|---|---|---|"]
    for metric in CATALOGUE:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(
            f"| `{metric.prometheus}` | `{metric.name}` | {metric.kind.value} | `{metric.unit}` | {labels} | {metric.help} |"
        )
    return _START + "\n".join(rows) + "\n"

"""The keys of ``schedules``: when ``headrace serve`` starts updates."""

from __future__ import annotations

from headrace.schedules.definition import CatchUp, When
from headrace.settings.key import ValueType, used

SCHEDULE_KEYS = (
    used(
        "schedules",
        ValueType.NAMED_SECTIONS,
        "[Schedules](../how-to/schedules.md) by name: when `headrace serve` starts an update. Each has one of `cron`, "
        "`quartz_cron`, `every`, `files`, `tables`, `continuous` and `freshness`. In a profile, it replaces them all.",
        "none",
        in_profile=True,
    ),
    used("schedules.*.cron", ValueType.TEXT, "Times, as five fields of a Unix cron expression: `0 2 * * *`."),
    used(
        "schedules.*.quartz_cron",
        ValueType.TEXT,
        "Times, as six fields of a Quartz expression, which starts with seconds: `0 0 2 * * ?`.",
    ),
    used("schedules.*.timezone", ValueType.TEXT, "Time zone of the times, such as `Europe/Berlin`.", "`UTC`"),
    used("schedules.*.every", ValueType.TEXT, "A period, such as `15m` or `1 hour`."),
    used(
        "schedules.*.files",
        ValueType.TEXT,
        "A folder, or a path with wildcards, as in Auto Loader. An update starts when files arrive.",
    ),
    used(
        "schedules.*.tables",
        ValueType.TEXTS,
        "Datasets of the pipeline, or paths of other Delta tables. An update starts when their rows change.",
    ),
    used(
        "schedules.*.when",
        ValueType.TEXT,
        "Of several tables, whether `any` or `all` must have changed.",
        f"`{When.ANY.value}`",
        choices=tuple(one.value for one in When),
    ),
    used(
        "schedules.*.quiet",
        ValueType.TEXT,
        "With `files` and `tables`: an update starts when nothing has changed for this time.",
        "`0s`",
    ),
    used(
        "schedules.*.at_most_every",
        ValueType.TEXT,
        "With `files` and `tables`: the least time between the starts of two updates.",
        "`60s`",
    ),
    used("schedules.*.continuous", ValueType.BOOLEAN, "An update runs all the time.", "`false`"),
    used(
        "schedules.*.freshness",
        ValueType.MAP,
        "By dataset, how old it may be: `revenue: 10m`. What leads there is updated so often.",
    ),
    used(
        "schedules.*.refresh",
        ValueType.TEXTS,
        "Datasets to refresh, selected as by `headrace run --refresh`.",
        "all; with `freshness`, the datasets and all above",
    ),
    used(
        "schedules.*.catch_up",
        ValueType.TEXT,
        "Times that passed while no server ran: one update for `latest`, or `none`.",
        f"`{CatchUp.LATEST.value}`",
        choices=tuple(one.value for one in CatchUp),
    ),
    used(
        "schedules.*.retries",
        ValueType.NUMBER,
        "How often a failed update is started again. Not those that no retry can correct.",
        "`pipelines.numUpdateRetryAttempts`; else 5, `0` in development, and no limit with `continuous`",
    ),
)

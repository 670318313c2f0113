"""The checks of the exercises: each runs a project, and measures on its data what the exercise asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from headrace.assistant.practice.exercise import Criterion, Exercise
from headrace.assistant.practice.exercise_data import rows_of, visits
from headrace.practice.checked_project import CheckedProject, CheckFailed
from headrace.practice.exercise_files import write_exercise
from headrace.practice.task_times import TaskTimes
from headrace.project.scratch import scratch

_BROADCAST, _SORT_MERGE = "BroadcastHashJoin", "SortMergeJoin"
_COUNTED_SHARE = 0.99
_MOST_WINDOWS = 40
_MOST_KEYS = 200
_FASTER = 3
_ANSWER = "answer.yml"
_BOTTLENECKS = ("source", "state", "commit")


def check(exercise: Exercise, folder: Path, scratch_folder: Path) -> tuple[Criterion, ...]:
    """Run a copy of the project in *folder*, and return what the check found about each criterion.

    The copy has the data of the exercise as it is at the start, and a storage of its own.

    Args:
        exercise: the exercise.
        folder: the project, or a folder in it; it is not changed.
        scratch_folder: an empty folder for the copies.

    Raises:
        PipelineError, Problems: the project's settings are missing or wrong.
    """
    found = [Criterion("the project runs", True, "yes")]  # noqa: FBT003 - a field
    try:
        project = CheckedProject(exercise.number, folder, _new(scratch_folder, "project"))
        found += _CHECKS[exercise.number](project, exercise, scratch_folder)
    except CheckFailed as failure:
        advice = "`headrace run` shows where. Correct it and check again."
        found = [Criterion("the project runs", False, failure.reason, advice)]  # noqa: FBT003 - a field
    return tuple(found)


def check_in_scratch(exercise: Exercise, folder: Path, *, solved: bool) -> tuple[Criterion, ...]:
    """Check a project, or with *solved* the solution of the exercise, in temporary folders; see :func:`check`."""
    if solved:
        folder = scratch("solution") / "project"
        write_exercise(exercise, folder, solved=True)
    return check(exercise, folder, scratch("check"))


def _streaming_table(project: CheckedProject, _exercise: Exercise, _scratch: Path) -> Iterator[Criterion]:
    project.update()
    kind = project.kind("paid_orders")
    yield Criterion(
        "paid_orders is a streaming table",
        kind == "streaming table",
        kind,
        "Return a DataFrame of spark.readStream, from a function with @dp.table.",
    )
    columns = ["order_id", "customer", "amount"]
    yield Criterion(
        "it has the columns order_id, customer and amount",
        project.columns("paid_orders") == columns,
        ", ".join(project.columns("paid_orders")),
        'Add .select("order_id", "customer", "amount").',
    )
    yield _paid(project, stages=1)
    checkpoint = project.checkpoint("paid_orders")
    batches = len([file for file in (checkpoint / "commits").glob("*") if file.name.isdigit()])
    yield Criterion(
        "a checkpoint records the batches of the flow",
        batches > 0,
        f"{batches} completed in {checkpoint.name and 'its checkpoint'}" if batches else "there is no checkpoint",
        "Only flows of streaming tables have one.",
    )
    project.land(1)
    new = sum(order["status"] == "paid" for order in rows_of(1, "data/orders", 2)) - len(_paid_orders(1))
    written = project.update().counts("paid_orders").rows_written
    yield Criterion(
        "an update writes only new orders",
        written == new,
        f"{written} rows written, of {new} new paid orders",
        "Read the table with spark.readStream, not with spark.read.",
    )
    yield _paid(project, stages=2)


def _paid_orders(stages: int) -> list[tuple[object, ...]]:
    paid = (order for order in rows_of(1, "data/orders", stages) if order["status"] == "paid")
    return sorted(((order["order_id"], order["customer"], order["amount"]) for order in paid), key=repr)


def _paid(project: CheckedProject, stages: int) -> Criterion:
    rows, expected = project.rows("paid_orders", ("order_id", "customer", "amount")), _paid_orders(stages)
    missing, extra = Counter(expected) - Counter(rows), Counter(rows) - Counter(expected)
    return Criterion(
        "it has each paid order once, and no other" + (", also after new orders" if stages > 1 else ""),
        not missing and not extra,
        f"{len(rows)} rows, of {len(expected)} paid orders; {missing.total()} missing, {extra.total()} too many",
        "Filter with status = 'paid'.",
    )


def _watermark(project: CheckedProject, _exercise: Exercise, _scratch: Path) -> Iterator[Criterion]:
    project.update()
    windows = project.state_rows("readings_per_window")
    # A reading of the next day closes all windows.
    project.land(1)
    project.update()
    counted = sum(int(row[0] or 0) for row in project.rows("readings_per_window", ("readings",)))
    sent = len(rows_of(2, "data/readings"))
    yield Criterion(
        f"at least {_COUNTED_SHARE:.0%} of the readings are counted",
        counted >= _COUNTED_SHARE * sent,
        f"{counted} of {sent} ({counted / sent:.1%})",
        "Allow a longer delay. `headrace lateness readings at` shows how late readings are.",
    )
    yield Criterion(
        f"at most {_MOST_WINDOWS} windows are in state while the sensors send",
        0 < windows <= _MOST_WINDOWS,
        f"{windows} windows" if windows else "no windows in state",
        "Allow a shorter delay, and keep the windows of 5 minutes for each sensor.",
    )


def _enrichment(project: CheckedProject, exercise: Exercise, scratch_folder: Path) -> Iterator[Criterion]:
    _, times = project.timed_update()
    columns = ("click_id", "product_id", "category")
    categories = {row["product_id"]: row["category"] for row in rows_of(3, "data/products")}
    clicks = rows_of(3, "data/clicks")
    expected = [(one["click_id"], one["product_id"], categories.get(one["product_id"])) for one in clicks]
    rows = project.rows("enriched_clicks", columns)
    lost = len(clicks) - len({row[0] for row in rows})
    yield Criterion(
        "each click is in the table once, with the category of its product",
        Counter(rows) == Counter(expected),
        f"{len(rows)} rows, of {len(clicks)} clicks; {lost} clicks are lost",
        'Use a left join: clicks.join(..., "product_id", "left").',
    )
    joins = dict(times.joins)
    yield Criterion(
        "the join broadcasts the products",
        _BROADCAST in joins,
        _joins(times),
        "Write F.broadcast(products) in the join.",
    )
    starter = _new(scratch_folder, "starter")
    write_exercise(exercise, starter, solved=False)
    _, before = CheckedProject(exercise.number, starter, _new(scratch_folder, "before")).timed_update()
    yield Criterion(
        "its tasks are fewer than without the hint",
        times.tasks < before.tasks,
        f"{times.tasks} tasks, {times.total_ms} ms; without the hint {before.tasks} tasks, {before.total_ms} ms",
        "A join without a shuffle has one task for each file.",
    )


def _joins(times: TaskTimes) -> str:
    return ", ".join(f"{name} ({duration_ms} ms)" for name, duration_ms in dict(times.joins).items()) or "no join"


def _deduplication(project: CheckedProject, _exercise: Exercise, _scratch: Path) -> Iterator[Criterion]:
    project.update()
    sent = [row["payment_id"] for row in rows_of(4, "data/payments")]
    rows = [row[0] for row in project.rows("payments", ("payment_id",))]
    duplicates, left = len(sent) - len(set(sent)), len(rows) - len(set(rows))
    yield Criterion(
        "all duplicates are removed",
        left == 0,
        f"{duplicates - left} of {duplicates} removed ({1 - left / duplicates:.0%})",
        "Use dropDuplicatesWithinWatermark, with a watermark that is longer than duplicates are late.",
    )
    missing = len(set(sent) - set(rows))
    yield Criterion(
        "no payment is missing",
        missing == 0,
        f"{missing} missing",
        "Allow a longer delay: a payment that is older than the watermark is dropped.",
    )
    keys = project.state_rows("payments")
    yield Criterion(
        f"at most {_MOST_KEYS} keys are in state",
        keys <= _MOST_KEYS,
        f"{keys} keys",
        "dropDuplicates keeps each key forever. dropDuplicatesWithinWatermark drops it after the delay.",
    )


def _sessions(project: CheckedProject, _exercise: Exercise, _scratch: Path) -> Iterator[Criterion]:
    project.update()
    expected = visits(rows_of(5, "data/views"))
    columns = list(expected[0])
    missing = [name for name in columns if name not in project.columns("visits")]
    yield Criterion(
        f"visits has the columns {', '.join(columns)}",
        not missing,
        f"missing: {', '.join(missing)}" if missing else "all are there",
        "Aggregate with F.min, F.max and F.count, and name the columns.",
    )
    views = sum(visit["page_views"] for visit in expected)
    counts = project.rows("visits", ("user", "page_views"))
    wanted = sorted(((visit["user"], visit["page_views"]) for visit in expected), key=repr)
    yield Criterion(
        "each visit is one session",
        counts == wanted,
        f"{len(counts)} sessions of {sum(int(row[1] or 0) for row in counts)} views, "
        f"of {len(expected)} visits of {views} views",
        "More sessions than visits: the timeout is too short. Fewer: it is too long.",
    )
    times = ("user", "started_at", "ended_at", "duration_s")
    rows = [tuple(map(_plain, row)) for row in project.rows("visits", times)]
    metrics = [tuple(_plain(visit[name]) for name in times) for visit in expected]
    equal = (Counter(rows) & Counter(metrics)).total()
    yield Criterion(
        "times and durations are those of the first and the last view",
        Counter(rows) == Counter(metrics),
        f"{equal} of {len(expected)} visits are equal",
        "A session window ends a timeout after the last view. Use F.min and F.max of the views.",
    )


def _plain(value: object) -> object:
    """A time as text without its zone."""
    return value.isoformat()[:19] if hasattr(value, "isoformat") else value


def _tuning(project: CheckedProject, exercise: Exercise, scratch_folder: Path) -> Iterator[Criterion]:
    _, after = project.timed_update()
    totals: Counter[str] = Counter()
    for row in rows_of(6, "data/events"):
        totals[row["shop"]] += row["amount"]
    rows = project.rows("totals", ("shop", "amount"))
    yield Criterion(
        "totals are those of all events",
        rows == sorted(totals.items(), key=repr),
        f"{len(rows)} shops, of {len(totals)}",
        "Change how the stream is read and the settings, not the query.",
    )
    starter = _new(scratch_folder, "starter")
    write_exercise(exercise, starter, solved=False)
    _, before = CheckedProject(exercise.number, starter, _new(scratch_folder, "before")).timed_update()
    profile = f"source {before.source_ms} ms, state {before.state_ms} ms, commit {before.commit_ms} ms"
    answer = _answer(project.pipeline.folder / _ANSWER)
    yield Criterion(
        f"{_ANSWER} names the bottleneck",
        answer == before.bottleneck,
        f'"{answer}"' + (f"; before: {profile}" if answer in _BOTTLENECKS else ""),
        f"Write one of {', '.join(_BOTTLENECKS)}: where most of the time of the tasks goes.",
    )
    ratio = before.total_ms / max(after.total_ms, 1)
    yield Criterion(
        f"the tasks take at most a third of the time of before ({_FASTER} times less)",
        ratio >= _FASTER,
        f"{before.total_ms} ms in {before.tasks} tasks before, {after.total_ms} ms in {after.tasks} now: "
        f"{ratio:.1f} times less",
        "Each batch runs a task for each partition of the state. Run fewer batches, and fewer tasks in each.",
    )


def _answer(file: Path) -> str:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return "nothing that can be read"
    return str(found.get("bottleneck")) if isinstance(found, dict) else "nothing"


def _new(folder: Path, name: str) -> Path:
    """A new empty folder."""
    made = folder / f"{name}-{sum(1 for _ in folder.iterdir())}"
    made.mkdir()
    return made


_CHECKS: Mapping[int, Callable[[CheckedProject, Exercise, Path], Iterator[Criterion]]] = {
    1: _streaming_table,
    2: _watermark,
    3: _enrichment,
    4: _deduplication,
    5: _sessions,
    6: _tuning,
}

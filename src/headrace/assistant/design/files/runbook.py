"""``runbook.md``: what to do when something is wrong, with commands for the flows of this project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.files.pages import run_commands
from headrace.assistant.design.requirements import ErrorPolicy, Source
from headrace.assistant.design.source_defaults import facts_of

_PROGRESS = (
    "SELECT query_id, batch_id, input_rows, batch_duration_ms, slowest_phase FROM system.streaming.query_progress "
    "ORDER BY batch_id DESC LIMIT 20"
)


@dataclass(frozen=True)
class Trouble:
    """One row of the runbook: what is seen, where to look, and what to do."""

    title: str
    symptom: str
    look: tuple[str, ...]
    steps: tuple[str, ...]
    page: str


def runbook_page(blueprint: Blueprint) -> str:
    """The text of ``runbook.md``."""
    return "\n".join(_lines(blueprint)) + "\n"


def _lines(blueprint: Blueprint) -> Iterator[str]:
    yield f"# {blueprint.requirements.name}: runbook"
    yield from ["", "All commands are run in the folder of the project, in the profile production:", ""]
    yield "    export HEADRACE_PROFILE=production"
    yield from ["", "## Start and stop", ""]
    yield from (f"    {command}" for command in run_commands(blueprint)[3:])
    yield ""
    if blueprint.is_continuous:
        yield "Stop it with SIGTERM: running batches end, and the next start continues after them. After a crash, start"
        yield "it again. No row is lost or repeated in a table."
    else:
        yield "An update that is interrupted continues with the next one. No row is lost or repeated in a table."
    yield from ["", "## Every day", "", "    headrace doctor", "    headrace alerts check", "    headrace maintain"]
    yield from [
        "",
        "## When something is wrong",
        "",
        "Begin with `headrace doctor`: it names what is wrong, the worst cause first, and the command or the edit",
        "that ends it. `headrace status` shows the last update, and `headrace check` the success criteria.",
    ]
    for trouble in troubles(blueprint):
        yield from ["", f"### {trouble.title}", "", f"**Symptom:** {trouble.symptom}", ""]
        yield from (f"    {command}" for command in trouble.look)
        yield ""
        yield from (f"{number}. {step}" for number, step in enumerate(trouble.steps, 1))
        yield ""
        yield f"More: `headrace docs get {trouble.page.replace('/', ' ')}`"
    yield from ["", "## Change the pipeline", ""]
    yield "Change requirements.yml. `headrace design --diff` shows the decisions and the files that change, and"
    yield "`headrace design requirements.yml --out .` writes them; it replaces files that somebody has edited only with"
    yield "`--force`. Then `headrace plan` says what the next update does with the tables that exist, and refuses what"
    yield "their state does not allow."


def troubles(blueprint: Blueprint) -> tuple[Trouble, ...]:
    """The troubles that can happen to the flows of a design."""
    first = next(iter(blueprint.of(DatasetKind.BRONZE)), blueprint.datasets[-1])
    stateful = [dataset for dataset in blueprint.datasets if dataset.keeps_state]
    found = [_lag(first), _memory(stateful), _checkpoint(blueprint, first)]
    found += [_lost(first, stateful), _duplicates(blueprint, first), _wrong_records(blueprint, first)]
    if stateful:
        found.append(_late(first, stateful))
    found.append(_source_down(first))
    if sinks := blueprint.of(DatasetKind.SINK):
        found.append(_sink_down(sinks[0]))
    return tuple(found)


def _flow(dataset: Dataset) -> str:
    return f"{dataset.name}_delivery" if dataset.kind is DatasetKind.SINK else dataset.name


def _lag(first: Dataset) -> Trouble:
    return Trouble(
        "High lag, slow processing",
        f"the lag of a flow grows, or is above its latency ({spoken(first.latency_s)} for {first.name}).",
        ("headrace status --output json", f'headrace sql "{_PROGRESS}"'),
        (
            "`slowest_phase` says where the time goes: the source, the query, or the storage.",
            "If batches are full, give Spark more cores (`master` in pipeline.yml), or raise the limit of the source.",
            f"If one batch follows a long outage, wait: the backlog of {first.name} is read in batches of the limit.",
        ),
        "guides/performance",
    )


def _memory(stateful: list[Dataset]) -> Trouble:
    look = tuple(f"headrace explain {dataset.name}" for dataset in stateful) or ("headrace metrics",)
    less = "Shorten the delay of the watermark or the windows in the requirements: the state is in proportion to them."
    return Trouble(
        "Out of memory",
        "the process is killed, exits with 137, or reports `OutOfMemoryError`.",
        look,
        (
            "Give the driver more memory: `spark_conf: {spark.driver.memory: 4g}` in the profile production.",
            *([less] if stateful else []),
            "Lower the limit of records a batch in transformations/sources.py.",
            "Run it again: the batch that was interrupted is repeated, and written once.",
        ),
        "guides/state",
    )


def _checkpoint(blueprint: Blueprint, first: Dataset) -> Trouble:
    table = [d for d in blueprint.tables if d.is_stream]
    flow = _flow(table[0] if table else first)
    return Trouble(
        "A damaged or lost checkpoint",
        "a stream does not start; the error is `FLOW.CHECKPOINT_TORN` or `FLOW.CHECKPOINT_LOST`.",
        ("headrace checkpoints verify", f"headrace checkpoints show {flow}"),
        (
            f"`headrace checkpoints repair {flow}` moves a damaged file away, if the flow does not need it.",
            "Otherwise restore the whole storage from a backup: checkpoints and tables belong together.",
            f"Without a backup: `headrace run --full-refresh {flow}` clears the table and reads the source again.",
            "Never delete the folder: the stream would read everything again into the same table.",
        ),
        "guides/checkpoints",
    )


def _lost(first: Dataset, stateful: list[Dataset]) -> Trouble:
    source = first.source
    offsets = "lost offsets (`KAFKA.OFFSETS_LOST`) and " if facts_of(source).reader in ("kafka", "eventhubs") else ""
    steps = [
        f"The events name {offsets}rows that were too late (`FLOW.ROWS_TOO_LATE`).",
        "Look for the records in the quarantine before you look in the source.",
    ]
    if _is_replayable(source):
        steps.append(f"Read a range of the source again: `headrace backfill {first.name} --again`.")
    else:
        kept = facts_of(source).title
        steps.append(f"What {kept} still has can be read again: `headrace run --full-refresh {first.name}`.")
    if stateful:
        steps.append(
            f"If results lack late events, compute them again: `headrace run --full-refresh {stateful[0].name}`."
        )
    return Trouble(
        "Missing records",
        "a count is lower than expected.",
        ("headrace events --limit 50", "headrace quarantine list"),
        tuple(steps),
        "guides/backfill",
    )


def _is_replayable(source: Source) -> bool:
    return facts_of(source).reader in ("cloudFiles", "delta")


def _duplicates(blueprint: Blueprint, first: Dataset) -> Trouble:
    dedup = blueprint.of(DatasetKind.DEDUP)
    keys = ", ".join(first.keys) or "event_id"
    removed = (
        f"{dedup[0].name} removes duplicates within the delay of the watermark; later ones are kept."
        if dedup
        else "Add an output of the kind dedup to the requirements."
    )
    counted = f"SELECT {keys}, count(*) AS n FROM {first.name} GROUP BY {keys} HAVING n > 1 LIMIT 20"  # noqa: S608 - names of the design, for a page
    look = f'headrace sql "{counted}"'
    return Trouble(
        "Duplicates",
        "the same event twice.",
        (look,)
        if first.kind is DatasetKind.BRONZE and not first.source.is_debezium
        else ("headrace events --limit 50",),
        (
            "If the bronze table has them with different origins, the source has sent them twice.",
            removed,
            "A reset of a checkpoint (`--reset-checkpoint`) reads records again; the events name one.",
        ),
        "guides/deduplication",
    )


def _wrong_records(blueprint: Blueprint, first: Dataset) -> Trouble:
    policy = blueprint.requirements.on_error
    if policy is ErrorPolicy.FAIL:
        steps: tuple[str, ...] = (
            "The error names the rule and some of the rows.",
            "Correct the source or the rule, and run the update again: nothing of the batch was written.",
        )
    elif policy is ErrorPolicy.DROP:
        steps = ("The counts say how many records each rule has dropped; the records are in the source only.",)
    else:
        steps = (
            f"`headrace quarantine show {first.name} --rows 5` shows them with the reason.",
            f"Correct the rule or the query, then `headrace quarantine replay {first.name}`.",
        )
    return Trouble(
        "Wrong records, changed schema",
        "rows are quarantined or dropped, or a flow fails on a record.",
        ("headrace quarantine list", "headrace status"),
        (*steps, "If the source has a new field, add it to the schema in the requirements."),
        "guides/expectations",
    )


def _late(first: Dataset, stateful: list[Dataset]) -> Trouble:
    time = first.event_time or "event_time"
    return Trouble(
        "Late events",
        "events are in the bronze table, and in no result.",
        (f"headrace lateness {first.name} {time}", "headrace events --limit 50"),
        (
            "Compare the measured lateness with the delay in design.md.",
            "Set `lateness` in the requirements to the delay that keeps enough of them.",
            f"Compute past results again: `headrace run --full-refresh {stateful[0].name}`.",
        ),
        "guides/watermarks",
    )


def _source_down(first: Dataset) -> Trouble:
    kept_s = first.source.retention_s or facts_of(first.source).retention_s
    kept = f" The source keeps records for {spoken(kept_s)}." if kept_s else ""
    return Trouble(
        "The source cannot be reached",
        f"{first.name} fails and is retried, and flows that read it are skipped.",
        ("headrace status",),
        (
            "Other flows run on. When the source is back, the flow continues where it was.",
            f"Repair the connection before records expire.{kept}",
        ),
        "guides/sources",
    )


def _sink_down(sink: Dataset) -> Trouble:
    return Trouble(
        "A sink cannot be reached",
        f"{_flow(sink)} fails and is retried; its source keeps the rows.",
        ("headrace status", "headrace plan"),
        (
            "Tables are written all the same. When the sink is back, the flow continues where it was.",
            f"To deliver everything again: `headrace run --full-refresh {sink.name}`. The sink then gets rows twice.",
        ),
        "guides/sinks",
    )

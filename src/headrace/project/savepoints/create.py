"""Makes a savepoint of a storage, under the lease and while no maintenance runs.

A savepoint is a cut between batches: of each flow the checkpoint after its newest completed batch, of each table the
version that has exactly the batches up to there. So every stream must have read its input tables completely.
"""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from headrace.delta_log.table_files import live_files
from headrace.delta_log.tables import table_state
from headrace.errors import PipelineError, raise_all
from headrace.model.names import Naming
from headrace.plan.agreement import NONE
from headrace.project.lease_holders import user_name
from headrace.project.savepoints.saved_code import save_code
from headrace.project.savepoints.unfinished import unfinished_flows
from headrace.project.steps import Reached
from headrace.settings.settings import Settings
from headrace.storage.backfills import stored_backfills
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.flow_stores import QUARANTINE, RETAINED_EVENTS, TABLE
from headrace.storage.health import FlowHealth
from headrace.storage.savepoints.manifest import SavedFlow, SavedTable, Savepoint, SavepointKind
from headrace.storage.savepoints.pins import pin
from headrace.storage.savepoints.stored import CHECKPOINT, FLOWS, PINS, RECORD, Savepoints
from headrace.stores.copies import Copied, copy_tree
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, relative_path, storage_path

DEAD_LETTERS = "dead letters"
_PACKAGES = ("headrace", "pyspark", "delta-spark", "deltalake")
_SUFFIXES = {TABLE: "", QUARANTINE: ", quarantine", RETAINED_EVENTS: ", changes", DEAD_LETTERS: ", dead letters"}


@dataclass(frozen=True)
class SavepointRequest:
    """A savepoint to make.

    Attributes:
        name: its name; empty for none.
        kind: why it is made.
        plan_id: the plan that is applied next; empty for none.
    """

    name: str = ""
    kind: SavepointKind = SavepointKind.MANUAL
    plan_id: str = ""


def create_savepoint(
    settings: Settings,
    environ: Mapping[str, str],
    request: SavepointRequest,
    read_health: Callable[[], tuple[FlowHealth, ...]],
    fence: Callable[[], None],
    reached: Reached,
) -> Savepoint:
    """Make a savepoint; the caller holds the lease.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        request: what to make.
        read_health: reads the current health of the stored flows.
        fence: returns while the lease is held.
        reached: called at each step.

    Raises:
        PipelineError: SAVEPOINT.NAME, SAVEPOINT.NAME_TAKEN, SAVEPOINT.NOTHING, SAVEPOINT.TABLE_BROKEN.
        Problems: SAVEPOINT.UNFINISHED for each flow that has something unfinished.
    """
    layout, naming = settings.layout, settings.naming
    stored = Savepoints(layout)
    if request.name:
        stored.check_name(request.name)
    flows = read_health()
    if not flows:
        raise PipelineError("SAVEPOINT.NOTHING")
    raise_all(unfinished_flows(flows, naming))
    made_at = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(made_at))
    savepoint_id = f"sp-{stamp}-{secrets.token_hex(2)}"
    root = storage_path(layout.root)
    with stored.draft(savepoint_id) as draft:
        saved_flows, saved_tables = [], []
        for flow in flows:
            saved_flows.append(_save_flow(flow, root, draft, naming))
            reached("flow saved")
        fence()
        for dataset, role, path in _tables(flows):
            saved_tables.append(_save_table(dataset, role, path, root, draft))
            reached("table saved")
        fence()
        code_digest, has_code = save_code(settings, draft)
        reached("code saved")
        savepoint = Savepoint(
            id=savepoint_id,
            name=request.name,
            kind=request.kind,
            made_at=made_at,
            made_by=user_name(environ),
            pipeline=settings.id,
            made_with=dict(_versions()),
            code_digest=code_digest,
            has_code=has_code,
            plan_id=request.plan_id,
            tables=tuple(saved_tables),
            flows=tuple(saved_flows),
        )
        stored.publish(draft, savepoint)
    reached("savepoint published")
    return savepoint


def _save_flow(flow: FlowHealth, root: StoragePath, draft: StoragePath, naming: Naming) -> SavedFlow:
    stored, stores = flow.stored, flow.stores
    folder = str(relative_path(stored.file.parent, root))
    target = draft / FLOWS / folder
    target.mkdir(parents=True, exist_ok=True)
    (target / RECORD).write_bytes(stored.file.read_bytes())
    copied = Copied()
    has_checkpoint = flow.has_checkpoint and (stores.checkpoint / "metadata").is_file()
    if has_checkpoint:
        copied = copy_tree(stores.checkpoint, target / CHECKPOINT)
    batches = flow.batches
    return SavedFlow(
        name=stored.name,
        dataset=str(stored.dataset),
        identity=stored.record.identity,
        mode=stores.mode.value,
        folder=folder,
        epoch=stored.record.epoch,
        batch=batches.done if flow.has_numbered_batches and batches.done != NONE else None,
        committed=batches.committed if batches.committed not in (None, NONE) else None,
        files=copied.files,
        size_bytes=copied.size_bytes,
        backfills=tuple(backfill.number for backfill in stored_backfills(stored.file.parent, naming.canonical)),
        is_sink=table_state(stores.tables[TABLE]) is None,
    )


def _tables(flows: Iterable[FlowHealth]) -> Iterator[tuple[str, str, str]]:
    """The dataset, the role and the path of each table that flows write."""
    seen: set[str] = set()
    for flow in flows:
        letters = dead_letter_table(flow.stored.file.parent)
        for role, path in (*flow.stores.tables.items(), (DEAD_LETTERS, letters)):
            if path not in seen and table_state(path) is not None:
                seen.add(path)
                yield str(flow.stored.dataset), role, path


def _save_table(dataset: str, role: str, path: str, root: StoragePath, draft: StoragePath) -> SavedTable:
    state = table_state(path)
    if state is None:
        raise PipelineError("SAVEPOINT.TABLE_BROKEN", path=path, reason="it is gone")
    relative = str(relative_path(storage_path(path), root))
    files = live_files(path, state.version)
    rows = [file.rows for file in files]
    known = sum(count for count in rows if count is not None) - sum(file.deleted_rows for file in files)
    copied = None
    if not isinstance(draft, ObjectPath):
        try:
            copied = pin(path, state.version, Path(draft, PINS, relative))
        except FileNotFoundError as error:
            reason = f"its file {error.filename} is missing"
            raise PipelineError("SAVEPOINT.TABLE_BROKEN", path=path, reason=reason) from error
    return SavedTable(
        name=f"{dataset}{_SUFFIXES[role]}",
        dataset=dataset,
        role=role,
        path=relative,
        table_id=state.table_id,
        version=state.version,
        files=len(files),
        size_bytes=sum(file.size for file in files),
        rows=None if None in rows else known,
        pinned=copied is not None,
    )


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue

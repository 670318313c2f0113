"""What the maintenance of a pipeline's storage keeps, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.model.time_window import TimeWindow

DAY_S = 86_400.0
# Delta's own default. A reader of an older version may be running, and nobody knows of readers outside of the storage.
LEAST_RETENTION_S = 7 * DAY_S
# A batch or a rewrite commits its files once all are written, which may take hours. No log names them before.
LEAST_FILE_AGE_S = DAY_S


class Task(str, Enum):
    """A part of maintenance, in the order in which they are done."""

    EPOCHS = "epochs"
    INACTIVE = "inactive"
    RETENTION = "retention"
    COMPACT = "compact"
    CLUSTER = "cluster"
    VACUUM = "vacuum"
    CHECKPOINT = "checkpoint"


# The others are about a single table, or log files.
OF_CHECKPOINTS = (Task.EPOCHS, Task.INACTIVE)


class VacuumScope(str, Enum):
    """Which tables are vacuumed."""

    VIEWS = "views"
    ALL = "all"
    OFF = "off"


@dataclass(frozen=True)
class MaintenancePolicy:
    """The settings of maintenance; times are in seconds.

    Attributes:
        vacuum: which tables are vacuumed.
        retain_s: how long files are kept that tables no longer refer to.
        rows_retain_s: how long quarantined rows and dead letters are kept that were replayed or released.
        open_rows_retain_s: the same for open ones; None for forever.
        logs_retain_s: how long log files are kept.
        epochs_retain_s: how long checkpoints of old epochs are kept; None for forever.
        inactive_retain_s: how long datasets and flows are kept that left the code; None for forever.
        window: when actions may start; None for always.
        most_s: how long after the start another action may start; None for ever.
    """

    vacuum: VacuumScope = VacuumScope.VIEWS
    retain_s: float = LEAST_RETENTION_S
    rows_retain_s: float = 30 * DAY_S
    open_rows_retain_s: float | None = None
    logs_retain_s: float = 14 * DAY_S
    epochs_retain_s: float | None = None
    inactive_retain_s: float | None = None
    window: TimeWindow | None = None
    most_s: float | None = None


DEFAULT_POLICY = MaintenancePolicy()


@dataclass(frozen=True)
class MaintenanceRequest:
    """What a call of ``headrace maintain`` asks for.

    Attributes:
        datasets: the datasets to maintain; empty for all tables and log files.
        tasks: the tasks to do.
        dry_run: only say what would be done.
        short_retention: allow a retention below the least one.
        anytime: also start actions outside of the window.
    """

    datasets: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = tuple(Task)
    dry_run: bool = False
    short_retention: bool = False
    anytime: bool = False

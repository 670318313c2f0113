"""Events about the storage itself: rows that were erased, tables that were maintained, events that expired."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.events.levels import Json, Level, Maturity


@dataclass(frozen=True)
class RowsErased:
    """Rows of a person were erased from the storage; the values that identified them are not stored.

    *columns* are the columns that were compared, *rows* the numbers of rows by place, *user* who erased them.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, int]
    kept_files: bool = False
    user: str | None = None

    event_type: ClassVar[str] = "rows_erased"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        user = f" by {self.user}" if self.user else ""
        return f"rows of a person erased{user}: {sum(self.rows.values())}, found by {', '.join(self.columns)}"


@dataclass(frozen=True)
class SavepointChanged:
    """A savepoint was made, restored or dropped: *action* is created, restored or dropped, *user* who did it."""

    action: str
    savepoint: str
    name: str
    kind: str
    user: str | None = None

    event_type: ClassVar[str] = "savepoint"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        user = f" by {self.user}" if self.user else ""
        return f"savepoint {self.name or self.savepoint} {self.action}{user}"


@dataclass(frozen=True)
class UserAction:
    """Somebody asked the server to do something: *user* is the name of a token, *address* where the request came from.

    *arguments* follow the verb on the command line; *request_id* is that of the request.
    """

    user: str
    address: str
    verb: str
    arguments: tuple[str, ...] = ()
    request_id: str | None = None

    event_type: ClassVar[str] = "user_action"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        arguments = f" {shlex.join(self.arguments)}" if self.arguments else ""
        return f"{self.user} asked for: {self.verb}{arguments}"


@dataclass(frozen=True)
class StageSwapped:
    """A stage was swapped in: *datasets* have the rows that it had for them, *user* is who did it."""

    stage: str
    datasets: tuple[str, ...]
    user: str | None = None

    event_type: ClassVar[str] = "stage_swapped"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        user = f" by {self.user}" if self.user else ""
        return f"stage {self.stage} swapped in{user}: {', '.join(self.datasets)}"


@dataclass(frozen=True)
class TableHandedOver:
    """A table came into the pipeline, or left it: *action* is adopted or released, or what has become allowed.

    *location* is its folder, *user* who did it.
    """

    action: str
    dataset: str
    location: str
    user: str | None = None

    event_type: ClassVar[str] = "adoption"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        user = f" by {self.user}" if self.user else ""
        return f'table "{self.dataset}" at {self.location}: {self.action}{user}'


@dataclass(frozen=True)
class TableMaintained:
    """An action of maintenance on a table, or on log files; *state* is DONE, SKIPPED or FAILED.

    It is in ``system/operations``. Numbers that do not apply are None.
    """

    dataset: str
    path: str
    task: str
    state: str
    reason: str
    files_before: int | None = None
    bytes_before: int | None = None
    files_after: int | None = None
    bytes_after: int | None = None
    rows: int | None = None

    event_type: ClassVar[str] = "maintenance_progress"
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def level(self) -> Level:
        """ERROR if the action failed."""
        return Level.ERROR if self.state == "FAILED" else Level.INFO

    @property
    def message(self) -> str:
        """One readable line."""
        return f'{self.task} of "{self.dataset}" is {self.state}: {self.reason}'


@dataclass(frozen=True)
class LogTrimmed:
    """Expired events are about to be removed from the log.

    *before* and *metrics_before* are a ``Horizon`` (``events/expiry.py``): the events that it covers are in *metrics*,
    the JSON of their fold, together with those that were removed earlier. It is recorded before they are removed, so
    that no crash loses them: whoever folds the log starts from *metrics*, and skips what the horizon covers.
    """

    before: str
    metrics_before: str
    metrics: Json = field(default_factory=dict)

    event_type: ClassVar[str] = "log_trimmed"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        return "expired events are removed from the event log"

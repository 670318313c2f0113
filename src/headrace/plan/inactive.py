"""Datasets and flows in the storage that the code does not define. They stay unchanged until they are defined again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DATASET_INACTIVE = "DATASET.INACTIVE"
FLOW_INACTIVE = "FLOW.INACTIVE"
INACTIVE = frozenset({DATASET_INACTIVE, FLOW_INACTIVE})


@dataclass(frozen=True)
class Inactive:
    """A dataset that is not in the code, or one ``flow`` of a dataset. ``view`` is true for a persisted view."""

    dataset: str
    path: str
    flow: str | None = None
    view: bool = False

    @property
    def code(self) -> str:
        """Its code in the event log."""
        return DATASET_INACTIVE if self.flow is None else FLOW_INACTIVE

    @property
    def message(self) -> str:
        """One readable line."""
        if self.view:
            kept = f"queries use its stored definition until you delete the file {self.path}"
            return f'view "{self.dataset}" is not in the code; {kept} or define the view again'
        if self.flow is None:
            what, kept = f'table "{self.dataset}"', "its rows and state are kept"
        else:
            what, kept = f'flow "{self.flow}" of "{self.dataset}"', "its state is kept"
        return f"{what} is not in the code; {kept}, and it continues when you define it again"

    def describe(self) -> str:
        """One line of the plan."""
        return f"{'inactive':<10} {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {"dataset": self.dataset, "flow": self.flow, "path": self.path, "view": self.view}

"""A plan as a file: what an update, or the swap of a stage, would change, and who has approved exactly that.

The digest covers all but the approvals, so a file whose text was changed is found, and an approval belongs to one text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass

FORMAT = 1
# Of the swap of a stage. A version that does not know swaps would take it for an update of nothing.
SWAP_FORMAT = 2
_APPROVALS, _DIGEST = "approvals", "digest"


@dataclass(frozen=True)
class Approval:
    """The approval of one text of a plan.

    Attributes:
        by: who approves.
        at: when, in ISO 8601.
        digest: of the plan that was approved.
        note: what was said with it.
    """

    by: str
    at: str
    digest: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The approval as stored. A signature is reserved."""
        return {"by": self.by, "at": self.at, "says": self.note, "digest": self.digest, "signature": None}


@dataclass(frozen=True)
class PlanFile:
    """A plan and its approvals. *document* is JSON, without the approvals."""

    document: Mapping[str, Any]
    approvals: tuple[Approval, ...] = ()

    @classmethod
    def parse(cls, text: str, name: str) -> PlanFile:
        """The plan of a file's text.

        Args:
            text: of the file.
            name: of the file, for errors.

        Raises:
            PipelineError: PLAN.UNREADABLE; PLAN.TAMPERED if the text was changed after the plan was made.
        """
        try:
            raw = json.loads(text, parse_constant=_refuse)
            approvals = tuple(
                Approval(str(one["by"]), str(one["at"]), str(one["digest"]), str(one["says"]))
                for one in raw.pop(_APPROVALS)
            )
            written = raw.pop(_DIGEST)
            found = cls(raw, approvals)
            if raw["format"] > SWAP_FORMAT:
                raise PipelineError(
                    "PLAN.UNREADABLE",
                    file=name,
                    reason=f"a later version of Headrace wrote it, in format {raw['format']}",
                )
            if written != found.digest:
                raise PipelineError("PLAN.TAMPERED", file=name)
            _ = (
                found.plan_id,
                found.made_by,
                found.expires_at,
                found.selection,
                found.classes,
                found.rows_limit,
                found.stage,
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise PipelineError("PLAN.UNREADABLE", file=name, reason="it is not a plan") from error
        return found

    @property
    def digest(self) -> str:
        """The digest of the plan: of all but its approvals."""
        text = json.dumps(self.document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def plan_id(self) -> str:
        """Its id."""
        return str(self.document["plan_id"])

    @property
    def made_by(self) -> str:
        """Who made it."""
        return str(self.document["made_by"])

    @property
    def expires_at(self) -> datetime:
        """When it can no longer be applied."""
        return datetime.fromisoformat(self.document["expires_at"])

    @property
    def selection(self) -> Selection:
        """What it updates."""
        raw = self.document["selection"]
        return Selection(
            refresh=tuple(map(str, raw["refresh"])),
            full_refresh=tuple(map(str, raw["full_refresh"])),
            full_refresh_all=bool(raw["full_refresh_all"]),
            reset_checkpoint=tuple(map(str, raw["reset_checkpoint"])),
            accept_data_loss=bool(raw["accept_data_loss"]),
            selects_nothing=bool(raw.get("selects_nothing", False)),
        )

    @property
    def stage(self) -> str:
        """The name of the stage that it swaps in; empty for the plan of an update."""
        return str(self.document["stage"]["name"]) if self.document["format"] == SWAP_FORMAT else ""

    @property
    def classes(self) -> frozenset[ChangeClass]:
        """The classes of its changes."""
        return frozenset(ChangeClass(change["class"]) for change in self.document["changes"])

    @property
    def clears_rows(self) -> bool:
        """Whether it clears or replaces rows, or would if it were not refused."""
        if not self.classes.isdisjoint((ChangeClass.DESTRUCTIVE, ChangeClass.BLOCKED)):
            return True
        return any(int(change.get("rows_cleared") or 0) > 0 for change in self.document["changes"])

    @property
    def rows_limit(self) -> int:
        """How many rows it may clear."""
        return int(self.document["limits"]["rows_cleared"])

    def approved(self, by: str, at: datetime, note: str = "") -> PlanFile:
        """The plan with one more approval."""
        approval = Approval(by, at.isoformat(timespec="seconds"), self.digest, note)
        return replace(self, approvals=(*self.approvals, approval))

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        approvals = [approval.to_json() for approval in self.approvals]
        return {**self.document, _DIGEST: self.digest, _APPROVALS: approvals}

    def to_text(self) -> str:
        """The text of the file."""
        return f"{json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)}\n"


def check_approved(plan: PlanFile, policy: ApprovalPolicy, name: str) -> None:
    """Refuse to apply a plan that needs an approval and has none.

    Args:
        plan: the plan.
        policy: which changes need an approval.
        name: of the plan's file.

    Raises:
        PipelineError: PLAN.REJECTED, PLAN.NOT_APPROVED.
    """
    needed = needs_approval(plan.classes, policy)
    if not needed:
        return
    classes = ", ".join(known.value for known in needed)
    if policy.mode is ApprovalMode.REJECT:
        raise PipelineError("PLAN.REJECTED", classes=classes, options="")
    own = [approval for approval in plan.approvals if approval.digest == plan.digest]
    if not own:
        other = "its approvals are of another plan" if plan.approvals else "nobody has approved it"
        raise PipelineError("PLAN.NOT_APPROVED", plan=plan.plan_id, classes=classes, reason=other, file=name)
    if policy.four_eyes and all(approval.by == plan.made_by for approval in own):
        reason = f'"{plan.made_by}" has made it, and only the approval of another person counts'
        raise PipelineError("PLAN.NOT_APPROVED", plan=plan.plan_id, classes=classes, reason=reason, file=name)


def needs_approval(classes: frozenset[ChangeClass], policy: ApprovalPolicy) -> tuple[ChangeClass, ...]:
    """The classes that need an approval, worst first."""
    if policy.mode is ApprovalMode.ALLOW:
        return ()
    return tuple(sorted(classes & set(policy.required), key=lambda known: known.rank))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")

"""What a stage is, and how it is swapped in: two files, each replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class StagedFlow:
    """A flow of a stage, and what its flow in production was like when the stage was made.

    Attributes:
        name: its name.
        dataset: the dataset that it writes to.
        folder: the folder of its record, relative to either storage.
        identity: its name in transactions.
        epoch: the epoch that it runs in, which production has never used.
        production_epoch: that of production; -1 if it did not have the flow.
        production_fingerprint: of the query that production last ran; empty if it did not have the flow.
    """

    name: str
    dataset: str
    folder: str
    identity: str
    epoch: int
    production_epoch: int = -1
    production_fingerprint: str = ""


@dataclass(frozen=True)
class Stage:
    """A stage.

    Attributes:
        id: of its storage, which no other stage of the name has had.
        name: as the user called it, or the first dataset.
        datasets: the datasets that it has itself.
        flows: their flows.
        left_out: what the selection has besides, in sentences.
        made_at: when, in seconds since 1970.
        made_by: the user; None if the system has no name for them.
        pipeline: the id of the pipeline.
        code_digest: of the project's files that it is built with.
        accept_data_loss: whether it may have fewer rows than production, because some cannot be read again.
    """

    id: str
    name: str
    datasets: tuple[str, ...]
    flows: tuple[StagedFlow, ...]
    left_out: tuple[str, ...]
    made_at: float
    made_by: str | None
    pipeline: str
    code_digest: str
    accept_data_loss: bool = False

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {"format": FORMAT, **asdict(self)}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Stage:
        """The inverse of :meth:`to_json`.

        Raises:
            LookupError, TypeError, ValueError: it is not the content of such a file, or a later version wrote it.
        """
        known = _known(Stage, document)
        flows = tuple(StagedFlow(**_fields(StagedFlow, flow)) for flow in known["flows"])
        lists = {key: tuple(known[key]) for key in ("datasets", "left_out")}
        return Stage(**{**known, **lists, "flows": flows})


class TableStep(str, Enum):
    """What a swap does with a table."""

    REPLACED = "replaced"
    ADDED = "added"
    EMPTIED = "emptied"


class FlowStep(str, Enum):
    """What a swap does with a flow."""

    STAGED = "goes on from the stage"
    MOVED = "reads on behind the swap"
    CLEARED = "starts over"


@dataclass(frozen=True)
class TableToSwap:
    """A table of a swap.

    Attributes:
        name: what it is, in words.
        path: where it is, relative to either storage.
        step: what happens to it.
        version: the version of the stage's table; -1 if the stage has none.
        batches: the newest batch that it has then, by transaction id.
    """

    name: str
    path: str
    step: TableStep
    version: int = -1
    batches: Mapping[str, int] | None = None


@dataclass(frozen=True)
class FlowToSwap:
    """A flow of a swap.

    Attributes:
        name: its name.
        dataset: the dataset that it writes to.
        folder: the folder of its record, relative to either storage.
        step: what happens to it.
        before: the epoch that its checkpoint is copied from; of the stage, if it goes on from there.
        epoch: its epoch in production then.
        transaction: the id of its commits then; empty if it has written no batch into a table of production.
        committed: the newest batch of these commits.
        table: the table that it writes to, relative to the storage; empty for a sink.
    """

    name: str
    dataset: str
    folder: str
    step: FlowStep
    before: int
    epoch: int
    transaction: str = ""
    committed: int = -1
    table: str = ""


@dataclass(frozen=True)
class Swap:
    """A swap that has begun, with all that its steps need: each can be repeated until the file is gone.

    Attributes:
        id: unique.
        stage: the stage's name.
        tables: what happens to tables.
        flows: what happens to flows.
        done: whether all steps are done, and only the stage is left to be removed.
    """

    id: str
    stage: str
    tables: tuple[TableToSwap, ...]
    flows: tuple[FlowToSwap, ...]
    done: bool = False

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {"format": FORMAT, **asdict(self)}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Swap:
        """The inverse of :meth:`to_json`.

        Raises:
            LookupError, TypeError, ValueError: it is not the content of such a file, or a later version wrote it.
        """
        known = _known(Swap, document)
        tables = tuple(
            TableToSwap(**{**_fields(TableToSwap, one), "step": TableStep(one["step"])}) for one in known["tables"]
        )
        flows = tuple(
            FlowToSwap(**{**_fields(FlowToSwap, one), "step": FlowStep(one["step"])}) for one in known["flows"]
        )
        return Swap(known["id"], known["stage"], tables, flows, known["done"])


def _known(kind: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    if document["format"] > FORMAT:
        raise ValueError(f"it was written by a later version of Headrace, in format {document['format']}")
    return {key: document[key] for key in kind.__dataclass_fields__}


def _fields(kind: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in kind.__dataclass_fields__}

"""The positions in topics that a restore takes flows back to, and what their brokers say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headrace.checkpoints.offsets import read_progress
from headrace.project.savepoints.restore_plan import FlowAction, RestorePlan
from headrace.settings.storage import StorageLayout
from headrace.sources.kafka_offsets import Positions, positions_of
from headrace.storage.savepoints.stored import CHECKPOINT, FLOWS, Savepoints


@dataclass(frozen=True)
class SavedTopics:
    """The topics of a source, and where a restored flow reads on.

    Attributes:
        flow: its name now.
        source: the number of the source among those of the flow.
        read: the next offsets that it reads.
    """

    flow: str
    source: int
    read: Positions


@dataclass(frozen=True)
class BrokerAnswers:
    """What brokers say.

    Attributes:
        losses: records that they no longer have, in sentences.
        notes: what is unknown, and why, in sentences.
    """

    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


AskBrokers: TypeAlias = "Callable[[Sequence[SavedTopics]], BrokerAnswers]"


def saved_topics(plan: RestorePlan, layout: StorageLayout) -> tuple[SavedTopics, ...]:
    """The topics of all flows that go back, at the positions of the savepoint."""
    return tuple(_saved_topics(plan, layout))


def _saved_topics(plan: RestorePlan, layout: StorageLayout) -> Iterator[SavedTopics]:
    folder = Savepoints(layout).folder(plan.savepoint) / FLOWS
    for flow in plan.flows:
        if flow.action is FlowAction.BACK and flow.saved is not None:
            progress = read_progress(folder / flow.saved.folder / CHECKPOINT)
            for number, offset in enumerate(progress.offsets if progress is not None else ()):
                read = positions_of(offset)
                if read:
                    yield SavedTopics(flow.name, number, read)


def with_answers(plan: RestorePlan, layout: StorageLayout, ask_brokers: AskBrokers) -> RestorePlan:
    """The plan of a restore, with what brokers say about it."""
    answers = ask_brokers(saved_topics(plan, layout))
    return replace(plan, losses=(*plan.losses, *answers.losses), notes=(*plan.notes, *answers.notes))


def not_asked(topics: Sequence[SavedTopics]) -> BrokerAnswers:
    """The answer without asking: a note for each flow."""
    return BrokerAnswers(notes=tuple(unasked(flow) for flow in dict.fromkeys(one.flow for one in topics)))


def unasked(flow: str, reason: str = "a restore asks it before it writes anything") -> str:
    """A note that the broker of a flow was not asked, or did not answer."""
    return f'whether the broker still has all records for flow "{flow}" is unknown: {reason}'

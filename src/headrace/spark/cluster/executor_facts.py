"""Judges what executors report about themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import PipelineError


@dataclass(frozen=True)
class ExecutorFacts:
    """What one task found.

    Attributes:
        host: the name of the machine.
        missing: the modules that cannot be imported, each with the error.
        storage_visible: whether it read a file that the driver wrote into the storage.
        write_error: why it could not write there; None if it could.
    """

    host: str
    missing: dict[str, str] = field(default_factory=dict)
    storage_visible: bool = True
    write_error: str | None = None

    @classmethod
    def of(cls, reported: dict[str, Any]) -> ExecutorFacts:
        """The facts in a report of ``probe``."""
        return cls(**{name: reported[name] for name in cls.__dataclass_fields__})


def executor_problems(executors: Sequence[ExecutorFacts], storage: str) -> tuple[PipelineError, ...]:
    """What keeps the executors from running an update of this storage.

    Args:
        executors: facts of all tasks.
        storage: the path of the storage.

    Returns:
        CLUSTER.MODULES, CLUSTER.STORAGE: one for each reason, with the hosts that it concerns.
    """
    return tuple(_problems(executors, storage))


def _problems(executors: Sequence[ExecutorFacts], storage: str) -> Iterator[PipelineError]:
    lacking = [one for one in executors if one.missing]
    if lacking:
        reasons = sorted({f"{name} ({reason})" for one in lacking for name, reason in one.missing.items()})
        yield PipelineError("CLUSTER.MODULES", hosts=_hosts(lacking), modules="; ".join(reasons))
    for reason, is_so in _STORAGE_REASONS:
        blind = [one for one in executors if is_so(one)]
        if blind:
            yield PipelineError(
                "CLUSTER.STORAGE", hosts=_hosts(blind), storage=storage, reason=reason.format(blind[0].write_error)
            )


_STORAGE_REASONS: tuple[tuple[str, Callable[[ExecutorFacts], bool]], ...] = (
    ("a file that this machine wrote is not there", lambda one: not one.storage_visible),
    ("it cannot be written: {}", lambda one: one.write_error is not None),
)


def _hosts(executors: Iterable[ExecutorFacts]) -> str:
    return ", ".join(sorted({one.host for one in executors}))

"""Names of the vendor's API that do not work yet: each refuses by name, with the reason and what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import PipelineError
from headrace.pipelines.registry import current_registry

# What each name would do here, and what to write until it does.
REASONS: Mapping[str, str] = {
    "create_sink": "sinks are not there yet; write a streaming table and deliver from it",
    "foreach_batch_sink": "sinks are not there yet; write a streaming table and deliver from it",
    "update_flow": "update flows write to sinks, which are not there yet",
}


def refusing(name: str) -> Callable[..., Any]:
    """A stand-in for *name* that records the refusal, at the user's line, wherever it is called."""

    def refuse(*_arguments: Any, **_options: Any) -> Any:
        registry = current_registry(name)
        registry.problems.append(
            PipelineError("UNSUPPORTED.FEATURE", location=registry.here(), what=name, reason=REASONS[name])
        )
        # Works as a call and as a decorator, so that the rest of the file is checked too.
        return lambda function: function

    refuse.__name__ = name
    refuse.__doc__ = f"Refused by name: {REASONS[name]}."
    return refuse

"""``on_event_hook``: call a user's function for each event of an update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import PipelineError
from headrace.model.hooks import EventHook
from headrace.pipelines.registry import Registry, current_registry

Hook = Callable[[dict[str, Any]], Any]


def on_event_hook(fn: Any = None, max_allowable_consecutive_failures: int | None = None) -> Any:
    """Call a function with each stable event of an update, as a dictionary with the columns of the event log.

    Hooks run one after the other in their own thread, in the order of events. Their errors never fail the update.

    Args:
        fn: the decorated function, when used without parentheses; it takes one argument.
        max_allowable_consecutive_failures: the number of consecutive errors after which the hook is disabled until the
            next update (default: no limit).

    Raises:
        PipelineError: DEFINITION.OUTSIDE: it was called outside of a pipeline's files.
    """
    registry = current_registry("on_event_hook")
    # Called without parentheses, the vendor's decorator takes the function first.
    declare = _declaring(registry, max_allowable_consecutive_failures)
    return declare if fn is None else declare(fn)


def _declaring(registry: Registry, most: Any) -> Callable[[Any], Any]:
    location = registry.here()

    def declare(function: Any) -> Any:
        if not callable(function):
            registry.problems.append(PipelineError("DEFINITION.NOT_CALLABLE", location=location, what="on_event_hook"))
        elif most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            registry.problems.append(PipelineError("HOOK.BAD_LIMIT", location=location, value=most))
        else:
            name = str(getattr(function, "__name__", "hook"))
            registry.hooks.append(EventHook(function, name, location, most))
        return function

    return declare

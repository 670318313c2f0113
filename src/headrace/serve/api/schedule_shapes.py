"""The shapes of what the API returns of schedules, by the names of their schemas."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.serve.api.shapes import Shape

_LAST: Mapping[str, Shape] = {
    "state": "text",
    "due_at": "time",
    "started_at": "time",
    "ended_at": "time",
    "duration": "text",
    "update_id": "text?",
    "message": "text?",
    "retries_at": "time?",
}
_SCHEDULE: Mapping[str, Shape] = {
    "name": "text",
    "when": "text",
    "kind": "text",
    "refresh": ["text"],
    "in_code": "flag",
    "state": "text",
    "paused_by": "text?",
    "next_at": "time?",
    "last": "#LastRun?",
    "retries": "whole?",
}

SCHEDULE_SHAPES: Mapping[str, Shape] = {
    "Schedules": {
        "pipeline": "text",
        "runs_on": "#Process?",
        "schedules": [_SCHEDULE],
        "problems": {"*": "text"},
    },
    "ScheduleReport": {
        "pipeline": "text",
        "as_of": "time",
        "runs_on": "#Process?",
        "name": "text",
        "schedule": "#Schedule?",
        "problem": "text?",
        "queue": [
            {
                "state": "text",
                "mark": "health",
                "is_watched": "flag",
                "cause": "text",
                "refresh": ["text"],
                "is_continuous": "flag",
                "started_at": "time?",
                "not_before": "time?",
                "host": "text?",
                "pid": "whole?",
                "firings": [
                    {"schedule": "text", "due_at": "time", "cause": "text", "starts": "whole", "failures": "whole"}
                ],
                "waits_for": "text",
            }
        ],
    },
    "Schedule": {
        **_SCHEDULE,
        "mark": "health",
        "fired_at": "time?",
        "is_due": "flag",
        "paused_at": "time?",
        "waits_for": "text",
        "catch_up": "text",
        "command": ["text"],
    },
    "LastRun": _LAST,
    "Process": {"host": "text", "pid": "whole"},
}

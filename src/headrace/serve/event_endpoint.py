"""Answers with the events of a pipeline: as a list, or as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from headrace.errors import PipelineError
from headrace.serve.api.query_values import levels_of, types_of
from headrace.serve.live_events import EventFilter, LiveEvents, event_rows
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import json_answer
from headrace.serve.whole_numbers import whole_number

_MOST_EVENTS = 1000


class EventEndpoint:
    """Answers with events.

    Args:
        pipelines: by their names in URLs.
        is_stopping: true once the server stops.
    """

    def __init__(self, pipelines: Mapping[str, ServedPipeline], is_stopping: Callable[[], bool]) -> None:
        self._pipelines = pipelines
        self._live = {slug: LiveEvents(pipeline, is_stopping) for slug, pipeline in pipelines.items()}

    async def answer(self, request: Request) -> Response:
        """The events that a request wants.

        Raises:
            PipelineError: SERVE.NO_PAGE, API.FIELD, EVENTS.NOT_READABLE.
        """
        slug, query = request.path_params["pipeline"], request.query_params
        pipeline = self._pipelines.get(slug)
        if pipeline is None:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        wanted = EventFilter(frozenset(types_of(query.getlist("type"))), frozenset(levels_of(query.getlist("level"))))
        after = whole_number(request.headers.get("last-event-id") or query.get("after", ""))
        if "text/event-stream" not in request.headers.get("accept", ""):
            first = -1 if after is None else after
            rows = await run_in_threadpool(event_rows, pipeline.events(), first, _MOST_EVENTS, pipeline.redact, wanted)
            return json_answer(rows)
        live = self._live[slug]
        if live.is_full:
            return PlainTextResponse("Too many browsers listen.\n", 503)
        return StreamingResponse(
            live.listen(after, wanted), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

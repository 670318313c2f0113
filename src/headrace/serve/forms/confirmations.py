"""Which requests of forms must be confirmed by typing the name of the pipeline: those that clear or replace rows."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.project.requests.plan_files import find_plan
from headrace.serve.api.bodies import Body
from headrace.serve.api.routes import ApiRoute
from headrace.serve.pipelines import ServedPipeline


def check_confirmation(pipeline: ServedPipeline, route: ApiRoute, body: Body, typed: str) -> None:
    """Refuse a request that clears or replaces rows, unless the name of the pipeline was typed.

    Raises:
        PipelineError: SERVE.NOT_CONFIRMED, SERVE.NO_PLAN, SERVE.PLAN_REJECTED.
    """
    if _must_be_typed(pipeline, route, body) and typed.strip() != pipeline.name:
        raise PipelineError("SERVE.NOT_CONFIRMED", pipeline=pipeline.name)


def _must_be_typed(pipeline: ServedPipeline, route: ApiRoute, body: Body) -> bool:
    match route.name:
        case "start_update":
            return bool(body.names("full_refresh") or body.names("reset_checkpoint"))
        case "apply_plan":
            return find_plan(pipeline.settings.layout, body.path["plan"]).plan.clears_rows
        case "restore":
            return not body.flag("dry_run")
        case "roll_back" | "drop_savepoint":
            return True
        case _:
            return False

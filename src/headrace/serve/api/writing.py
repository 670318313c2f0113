"""What can be asked for: each route that writes, as an action of the queue of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.errors import PipelineError
from headrace.project.requests import actions
from headrace.project.requests.plan_files import find_plan, new_plan_file
from headrace.project.requests.request import Action, file_name_of
from headrace.schedules.due import refreshed_by
from headrace.serve.api.bodies import Body
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.roles import Principal, Role
from headrace.sql.plain_expression import check_change

_HOURS = 4


@dataclass(frozen=True)
class Asked:
    """A request to be stored.

    Attributes:
        pipeline: of the request.
        body: what was sent.
        principal: who asks.
        request_id: of the request.
    """

    pipeline: ServedPipeline
    body: Body
    principal: Principal
    request_id: str

    @property
    def user(self) -> str:
        """The name of who asks."""
        return self.principal.name


def _selection(body: Body) -> actions.UpdateSelection:
    names = ("refresh", "full_refresh", "exclude", "reset_checkpoint")
    return actions.UpdateSelection(*(body.names(name) for name in names))


def _plan(asked: Asked) -> Action:
    file = new_plan_file(asked.pipeline.settings.layout, file_name_of(asked.request_id))
    return actions.plan(_selection(asked.body), asked.user, file)


def _approve(asked: Asked) -> Action:
    found = find_plan(asked.pipeline.settings.layout, asked.body.path["plan"])
    return actions.approve(found.file, asked.user, asked.body.text("note"))


def _reject(asked: Asked) -> Action:
    return actions.reject(find_plan(asked.pipeline.settings.layout, asked.body.path["plan"]).plan.plan_id)


def _apply(asked: Asked) -> Action:
    return actions.apply(find_plan(asked.pipeline.settings.layout, asked.body.path["plan"]).file)


def _replay(asked: Asked) -> Action:
    body, changes = asked.body, asked.body.names("set")
    for change in changes:
        check_change(change)
    choice = actions.ReplayChoice(body.names("rules"), changes, body.flag("release"), body.flag("from_source"))
    return actions.replay(body.path["dataset"], choice, is_dry_run=body.flag("dry_run"))


def _maintain(asked: Asked) -> Action:
    body = asked.body
    return actions.maintain(body.names("datasets"), body.names("only"), is_dry_run=body.flag("dry_run"))


def _restore(asked: Asked) -> Action:
    savepoint, datasets = asked.body.path["savepoint"], asked.body.names("datasets")
    if asked.body.flag("dry_run"):
        return actions.plan_restore(savepoint, datasets)
    role = asked.principal.role
    if not role.includes(Role.ADMIN):
        what = "Go back to a savepoint"
        raise PipelineError("API.FORBIDDEN", role=role.value, needed=Role.ADMIN.value, what=what)
    return actions.restore(savepoint, datasets)


def _fire(asked: Asked) -> Action:
    name = asked.body.path["schedule"]
    known = {one.name: one for one in asked.pipeline.schedules().declared.schedules}
    if name not in known:
        raise PipelineError("SCHEDULE.UNKNOWN", name=name, known=", ".join(known) or "none")
    if known[name].is_continuous:
        raise PipelineError("SERVE.CONTINUOUS", schedule=name)
    return actions.run(actions.UpdateSelection(refreshed_by(known[name])))


# By the name of the route. They may read storages, so they are called in threads. All raise PipelineError.
WRITERS: Mapping[str, Callable[[Asked], Action]] = {
    "start_update": lambda asked: actions.run(_selection(asked.body), is_continuous=asked.body.flag("continuous")),
    "stop_update": lambda asked: actions.stop(asked.body.path["update"]),
    "stop_request": lambda asked: actions.cancel(asked.body.path["request"]),
    "validate": lambda _asked: actions.validate(),
    "make_plan": _plan,
    "approve_plan": _approve,
    "reject_plan": _reject,
    "apply_plan": _apply,
    "replay": _replay,
    "maintain": _maintain,
    "create_savepoint": lambda asked: actions.create_savepoint(asked.body.text("name")),
    "restore": _restore,
    "drop_savepoint": lambda asked: actions.drop_savepoint(asked.body.path["savepoint"]),
    "roll_back": lambda asked: actions.roll_back(asked.body.path["plan"]),
    "fire_schedule": _fire,
    "pause_schedule": lambda asked: actions.pause(asked.body.path["schedule"], asked.user),
    "resume_schedule": lambda asked: actions.resume(asked.body.path["schedule"], asked.user),
    "acknowledge_alert": lambda asked: actions.acknowledge(asked.body.path["alert"], asked.user),
    "silence_alert": lambda asked: actions.silence(asked.body.path["alert"], asked.body.hours("hours", _HOURS)),
}

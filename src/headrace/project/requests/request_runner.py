"""Moves requests from state to state: recorded, started, ended. Called by one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.errors import PipelineError
from headrace.events.upkeep import UserAction
from headrace.project.requests import request as moves
from headrace.project.requests.actions import CANCEL, REJECT, STOP
from headrace.project.requests.plan_files import reject_plan
from headrace.project.requests.request import Lane, Request, RequestState
from headrace.project.requests.request_book import RequestBook
from headrace.project.requests.request_results import ChildVerb, EarlierVerb, RunningVerb, printed_of
from headrace.project.requests.running_update import stop_update
from headrace.project.requests.user_actions import record_action
from headrace.project.scheduling.child_process import ChildRunner
from headrace.settings.settings import Settings

_RUNNING_S, _IDLE_S = 0.1, 30.0
_LEAST_S = 0.05


@dataclass(frozen=True)
class QueueContext:
    """What a queue works on.

    Attributes:
        settings: of the pipeline.
        environ: the environment variables, also of the verbs.
        host: this machine.
        redact: removes secrets from a text.
        now: the time in seconds since 1970.
        say: shows a line.
    """

    settings: Settings
    environ: Mapping[str, str]
    host: str
    redact: Callable[[str], str]
    now: Callable[[], float]
    say: Callable[[str], None]


class RequestRunner:
    """Runs the requests of a pipeline.

    Args:
        context: what it works on.
        book: the requests.
        runner: starts verbs.
    """

    def __init__(self, context: QueueContext, book: RequestBook, runner: ChildRunner) -> None:
        self._context = context
        self._book = book
        self._runner = runner
        self._running: dict[str, RunningVerb] = {}

    def recover(self) -> None:
        """Look after the processes that were started before."""
        host, logs = self._context.host, self._runner.logs
        self._running = {
            one.id: self._running.get(one.id) or EarlierVerb(one, host, printed_of(logs, one))
            for one in self._book.all()
            if one.state is RequestState.RUNNING and not one.merged_into
        }

    @property
    def has_work(self) -> bool:
        """Whether a request waits or runs."""
        return any(not one.state.has_ended for one in self._book.all())

    def step(self) -> float:
        """Look after what runs, record and start what waits; returns how long to wait, in seconds.

        Raises:
            PipelineError, OSError: a request cannot be stored or recorded; nothing was started that is not.
        """
        self.look_after()
        for one in moves.expired(self._book.all(), self._context.now()):
            self._book.close_waiting(one)
        for one in self._book.all():
            if not one.is_recorded:
                asker, action = one.asker, one.action
                done = UserAction(asker.user, asker.address, action.verb, action.arguments, one.id)
                record_action(self._context.settings, self._context.redact, done)
                self._book.store(replace(self._book.find(one.id), is_recorded=True))
        for lane in Lane:
            while (due := moves.next_to_start(self._book.all(), lane, self._context.now())) is not None:
                self._begin(due)
        now = self._context.now()
        later = [one.not_before - now for one in self._book.all() if one.state is RequestState.WAITING]
        waits = [_IDLE_S, *([_RUNNING_S] if self._running else []), *(wait for wait in later if wait > 0)]
        return max(min(waits), _LEAST_S)

    def look_after(self) -> bool:
        """Store the ends of processes; returns whether others still run.

        Raises:
            PipelineError, OSError: an end cannot be stored.
        """
        for request_id, running in list(self._running.items()):
            ended = running.ended()
            if ended is not None:
                self._end(moves.after(self._book.find(request_id), ended, self._context.now()))
                del self._running[request_id]
        return bool(self._running)

    def stop_all(self) -> None:
        """Ask all verbs that run to stop.

        Raises:
            PipelineError, OSError: it cannot be stored that they were asked to.
        """
        for running in self._running.values():
            running.stop()
        self._book.store(*(replace(self._book.find(one), is_stopping=True) for one in self._running))

    def _begin(self, one: Request) -> None:
        verb, now = one.action.verb, self._context.now()
        if verb in (STOP, CANCEL, REJECT):
            try:
                self._do_here(verb, one.action.arguments[0])
            except PipelineError as error:
                self._book.store(moves.closed(one, RequestState.FAILED, now, error.code, error.message))
            else:
                self._book.store(moves.closed(one, RequestState.COMPLETED, now))
            return
        started = moves.begun(one, now, self._context.host)
        self._book.store(started)
        words = [*verb.split(" "), *one.action.arguments]
        # If a process with this id lives, or has run an update, the event log and the lease say so.
        options = ["--cause=API_CALL", f"--request-id={one.update_request_id}"] if verb == "run" else []
        try:
            child = self._runner.start_verb(one.file_name, [words[0], *options, *words[1:]])
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._end(moves.closed(started, RequestState.FAILED, now, message=reason))
            return
        self._running[one.id] = ChildVerb(child, printed_of(self._runner.logs, one))
        pid, process_started_at = child.process or (None, None)
        self._book.store(replace(started, pid=pid, process_started_at=process_started_at))

    def _do_here(self, verb: str, argument: str) -> None:
        context = self._context
        if verb == STOP:
            stop_update(context.settings, context.environ, context.now, argument)
        elif verb == REJECT:
            reject_plan(context.settings.layout, argument)
        else:
            self._cancel(self._book.find(argument))

    def _cancel(self, one: Request) -> None:
        if one.state is RequestState.WAITING:
            self._book.close_waiting(moves.closed(one, RequestState.CANCELED, self._context.now()))
            return
        running = self._running.get(one.merged_into or one.id)
        if one.state.has_ended or running is None:
            raise PipelineError("SERVE.NOT_RUNNING", what=f'request "{one.id}"')
        self._book.store(replace(one, is_stopping=True))
        running.stop()

    def _end(self, one: Request) -> None:
        merged = [other for other in self._book.all() if other.merged_into == one.id and not other.state.has_ended]
        self._book.store(one, *(moves.as_of(other, one) for other in merged if one.state.has_ended))
        self._context.say(self._context.redact(f"request {one.id}: {one.action.verb}: {one.state.value}"))

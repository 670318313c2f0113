"""Runs the server until it is stopped, and says how to sign in."""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from headrace.errors import PipelineError
from headrace.project.development.board import DevBoard
from headrace.project.lease_holders import host_name
from headrace.project.requests.request_queue import RequestQueue, running_queues
from headrace.project.requests.request_runner import QueueContext
from headrace.project.requests.verb_call import VerbCall
from headrace.project.scheduling.child_process import ChildRunner
from headrace.project.scheduling.start_schedulers import ScheduledPipeline, running_schedulers
from headrace.serve.addresses import Addresses, addresses
from headrace.serve.app import Server, create_app
from headrace.serve.connections import TimedConnection, allow_files
from headrace.serve.pipelines import ServedPipeline, redact_all, served_pipelines
from headrace.serve.proxies import proxy_users
from headrace.serve.queries.query_runner import QueryRunner, query_call
from headrace.serve.service_manager import ServiceManager, WatchedServer, without_service_manager
from headrace.serve.tokens import TokenFile, default_token_file
from headrace.worker.owned_workers import OwnedWorkers, OwnerOptions

# How long open pages may take to end when the server stops.
_STOP_TIMEOUT_S = 5
_MAX_HEADER_BYTES = 32 * 1024
_MOST_CONNECTIONS = 1000
_NEW_OBJECTS = 10_000


@dataclass(frozen=True)
class ServeOptions:
    """What is served, and where.

    Attributes:
        folders: of projects.
        listen: address and port.
        root_url: the URL that browsers use; None on this machine alone.
        profile: of the settings.
        token_file: None for the user's own.
        new_token: replace the token of the admin.
        is_read_only: nothing but reading is mounted.
        runs_schedules: start updates by the schedules of the projects.
        owner: how many warm workers run verbs, and for how long.
        beside: runs while the server does; it is entered once the port is open. None for nothing.
        boards: what is shown of projects that are being developed, by their folder.
    """

    folders: Sequence[Path]
    listen: str
    root_url: str | None = None
    profile: str | None = None
    token_file: Path | None = None
    new_token: bool = False
    runs_schedules: bool = True
    is_read_only: bool = False
    proxy_user_header: str | None = None
    trusted_proxies: Sequence[str] = ()
    users: Sequence[str] = ()
    owner: OwnerOptions = field(default_factory=OwnerOptions)
    beside: Callable[[Serving], AbstractContextManager[None]] | None = None
    boards: Mapping[Path, DevBoard] = field(default_factory=dict)


@dataclass(frozen=True)
class Serving:
    """A server whose port is open.

    Attributes:
        url: of its first page.
        token: the new token; None if it was made before.
        pipelines: by their names in URLs.
        workers: in which verbs run.
    """

    url: str
    token: str | None = field(repr=False)
    pipelines: Mapping[str, ServedPipeline]
    workers: OwnedWorkers


def serve(options: ServeOptions, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; answers that are under way are finished.

    Args:
        options: what is served, and where.
        environ: the environment variables.
        say: shows a line. The line with a new token is shown once, and nothing stores or logs it.

    Raises:
        PipelineError, Problems: a project, the address or the file of the token is wrong, or the port is taken.
    """
    reached = addresses(options.listen, options.root_url)
    manager, environ = ServiceManager(environ, os.getpid()), without_service_manager(environ)
    proxy = proxy_users(options.proxy_user_header, options.trusted_proxies, options.users, reached)
    pipelines = served_pipelines(options.folders, options.profile, environ, time.time, time.monotonic)
    file = options.token_file or default_token_file(environ)
    token_file = TokenFile(file)
    workers = OwnedWorkers(options.owner, environ, say)
    queues = {} if options.is_read_only else _queues(pipelines, options.profile, environ, workers, say)
    for pipeline in pipelines.values():
        pipeline.board = options.boards.get(pipeline.settings.root)
    calls = {
        slug: query_call(VerbCall(pipeline.settings.root, options.profile, environ, workers))
        for slug, pipeline in pipelines.items()
    }
    application = Server(
        reached,
        pipelines,
        token_file.read,
        time.time,
        time.monotonic,
        lambda: server.should_exit,
        is_read_only=options.is_read_only,
        queues=queues,
        profile=options.profile,
        proxy=proxy,
        runners={slug: QueryRunner(pipelines[slug], call, lambda: server.should_exit) for slug, call in calls.items()},
    )
    server = WatchedServer(server_config(create_app(application), reached), manager, f"serving {_names(pipelines)}")
    _log_without_secrets(pipelines.values())
    allow_files()
    _collect_seldom()
    with _bound(reached) as bound:
        token = token_file.create(time.time(), replace=options.new_token)
        serving = Serving(reached.url, token, pipelines, workers)
        if options.beside is None:
            _say_where(serving, token_file, file, say)
        scheduled = [
            ScheduledPipeline(pipeline.settings, options.profile, pipeline.redact, workers)
            for pipeline in pipelines.values()
            if options.runs_schedules
        ]
        with (
            closing(manager),
            closing(workers),
            nullcontext() if options.beside is None else options.beside(serving),
            running_queues(queues.values()),
            running_schedulers(scheduled, environ, say),
        ):
            try:
                # The signal that ended it comes again, unless the shell that started this process ignores it.
                with suppress(KeyboardInterrupt):
                    server.run(sockets=[bound])
                say("stopped")
            finally:
                # While the schedulers stop, too.
                for queue in queues.values():
                    queue.stop()


def _say_where(serving: Serving, token_file: TokenFile, file: Path, say: Callable[[str], None]) -> None:
    """Say what is served, and how to sign in."""
    say(f"serving {_names(serving.pipelines)}")
    if serving.token is not None:
        say(f"sign in, once: {serving.url}/login?token={serving.token}")
        say(f"{file} has its digest. The token is not shown again; --new-token makes another one.")
    else:
        say(f"{serving.url}/")
        if not token_file.read().has_admin(time.time()):
            say("no token is one of an admin; --new-token makes one")


def _names(pipelines: Mapping[str, ServedPipeline]) -> str:
    return ", ".join(pipeline.name for pipeline in pipelines.values())


def _collect_seldom() -> None:
    """Leave alone what the server is made of, and let Python look for garbage after pages, not several times in each.

    Of the graph of 1,000 datasets, it was a third of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


def server_config(
    application: ASGIApp, reached: Addresses, connection: type[TimedConnection] = TimedConnection
) -> uvicorn.Config:
    """How the application is served.

    Args:
        application: the application.
        reached: where it listens.
        connection: of each client.
    """
    return uvicorn.Config(
        application,
        host=reached.host,
        port=reached.port,
        http=connection,
        # Its log would have the token of the first request.
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        timeout_graceful_shutdown=_STOP_TIMEOUT_S,
    )


def _queues(
    pipelines: Mapping[str, ServedPipeline],
    profile: str | None,
    environ: Mapping[str, str],
    workers: OwnedWorkers,
    say: Callable[[str], None],
) -> dict[str, RequestQueue]:
    found = {}
    for slug, pipeline in pipelines.items():
        settings = pipeline.settings
        context = QueueContext(settings, environ, host_name(environ), pipeline.redact, time.time, say)
        runner = ChildRunner(
            settings.root,
            profile,
            Path(settings.layout.logs),
            environ,
            workers=workers,
            is_continuous=settings.continuous,
        )
        found[slug] = RequestQueue(context, runner)
    return found


class _Redacting(logging.Formatter):
    """Formats records, and stack traces with them, without the secrets of the pipelines."""

    def __init__(self, pipelines: Iterable[ServedPipeline]) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self._redact = redact_all(pipelines)

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return self._redact(super().format(record))


def _log_without_secrets(pipelines: Iterable[ServedPipeline]) -> None:
    handler, log = logging.StreamHandler(), logging.getLogger("uvicorn")
    handler.setFormatter(_Redacting(pipelines))
    log.handlers, log.propagate = [handler], False


def _bound(reached: Addresses) -> socket.socket:
    family = socket.AF_INET6 if ":" in reached.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((reached.host, reached.port))
        # From now on, browsers that are faster than the server wait.
        bound.listen()
    except OSError as error:
        bound.close()
        reason = error.strerror or str(error)
        raise PipelineError("SERVE.PORT", host=reached.host, port=reached.port, reason=reason) from error
    return bound

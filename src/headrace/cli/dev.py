"""The verb for developing a pipeline: pages, a warm worker, and a check after each save."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.dev_browser import can_open_browser, open_page
from headrace.cli.dev_display import DevDisplay
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.serve import server_module
from headrace.project.development.board import DevBoard
from headrace.project.development.check import check_project
from headrace.project.development.dev_loop import DevLoop
from headrace.project.development.project_files import ProjectFiles
from headrace.project.development.source_watch import SourceWatch
from headrace.project.requests.verb_call import VerbCall
from headrace.serve.addresses import addresses, free_address
from headrace.settings.settings import Settings
from headrace.worker.owned_workers import OwnerOptions

_LISTEN = "127.0.0.1:8741"
# Whoever edits thinks for longer than a server idles.
_IDLE_S = 8 * 3600.0
_PREVIEW_S = 120.0
_STDIN = 0


def dev(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where the pages are. A taken port is skipped.")
    ] = _LISTEN,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the pages in the browser.")] = True,  # noqa: FBT002 - an option of the command line
    schedules: Annotated[bool, typer.Option("--schedules", help="Also start updates by the schedules.")] = False,  # noqa: FBT002 - the same
) -> None:
    r"""Work on a pipeline: each save is checked within a second.

    Starts a warm worker and the web pages, and watches the files of the project. After each save you see what is wrong,
    with the place and what to do, or what changes: the plan of a run, compared with the plan before the save. Nothing
    is written to the storage until you run an update.

    \b
    While it runs, type a line and Enter:
      p orders     preview: compute some rows of a dataset
      c            check again
      l            list the whole plan
      o            open the pages
      q            quit, as Ctrl-C does

    \b
    Other terminals use the same warm worker:
      headrace run
      headrace sql "SELECT * FROM orders LIMIT 5"
    """
    invocation = invocation_of(context)
    settings = invocation.location.settings()
    server = server_module()
    with tempfile.TemporaryDirectory(prefix="headrace-dev-") as folder:
        session = _Session(invocation, settings, Path(folder), schedules=schedules)
        options = server.ServeOptions(
            folders=(settings.root,),
            listen=free_address(addresses(listen)),
            profile=invocation.location.profile,
            token_file=Path(folder) / "token.json",
            runs_schedules=schedules,
            owner=OwnerOptions(max_workers=1, idle_s=_IDLE_S),
            beside=lambda serving: session.running(serving, opens=browser),
            boards={settings.root: session.board},
        )
        server.serve(options, os.environ, session.display.note)


class _Session:
    """One call of the verb: what it shows, and the threads beside the server."""

    def __init__(self, invocation: Invocation, settings: Settings, folder: Path, *, schedules: bool) -> None:
        self.board = DevBoard()
        self.display = DevDisplay(invocation, self.board)
        self._settings = settings
        self._profile = invocation.location.profile
        self._folder = folder
        self._schedules = schedules
        self._is_ending = threading.Event()
        self._page = ""

    @contextmanager
    def running(self, serving: Any, *, opens: bool) -> Iterator[None]:
        """Check the project inside the block, and take commands from the terminal."""
        settings = self._settings
        redact = next(pipeline.redact for pipeline in serving.pipelines.values())
        call = VerbCall(settings.root, self._profile, os.environ, serving.workers)
        files, watch = ProjectFiles.of(settings), SourceWatch()
        self._page = f"{serving.url}/login?token={serving.token}"
        self.display.welcome(settings.name, serving.url, self._page, len(files.scan()), redact)

        def check() -> Any:
            return check_project(call, self._is_ending.is_set)

        loop = DevLoop(files, watch, check, self.board, time.time, self._is_ending.wait)
        self.board.on_change(self.display.changed)
        checking = threading.Thread(target=loop.run, name="headrace-dev", daemon=True)
        checking.start()
        if sys.stdin.isatty():
            threading.Thread(target=self._obey, args=(loop, call), name="headrace-keys", daemon=True).start()
        if opens and can_open_browser(os.environ):
            open_page(self._page, self._folder)
        try:
            yield
        finally:
            self._is_ending.set()
            loop.stop()
            watch.close()
            checking.join()

    def _obey(self, loop: DevLoop, call: VerbCall) -> None:
        """Take commands, each a line, until the terminal ends."""
        # Read without Python's buffer, whose lock a thread that waits would hold when the process ends.
        rest = b""
        while piece := os.read(_STDIN, 4096):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._do(line.decode(errors="replace").split(), loop, call)
        self._quit()

    def _do(self, words: list[str], loop: DevLoop, call: VerbCall) -> None:
        match words:
            case []:
                pass
            case ["c" | "check"]:
                loop.ask()
            case ["l" | "list" | "plan"]:
                self.display.plan()
            case ["o" | "open"]:
                if can_open_browser(os.environ):
                    open_page(self._page, self._folder)
                else:
                    self.display.note(self._page)
            case ["p" | "preview", name]:
                self.display.note(f"preview of {name}")
                words = ["preview", "--wait", "--", name]
                self.display.preview(call.run(words, timeout_s=_PREVIEW_S, is_canceled=self._is_ending.is_set))
            case ["q" | "quit" | "exit"]:
                self._quit()
            case _:
                self.display.commands()

    def _quit(self) -> None:
        if not self._is_ending.is_set():
            os.kill(os.getpid(), signal.SIGINT)

"""Runs each verb in a process of its own, so that code of the project never runs in the server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process

from headrace.errors import PipelineError
from headrace.mcp.verbs import QUICK_S, VerbFailedError, VerbOutput

# Two JVMs fit into the memory of a laptop.
_MOST_PROCESSES = 2
_MOST_OUTPUT_BYTES = 8_000_000
_KEPT_STDERR_BYTES = 20_000
# An update needs time to stop in an orderly way.
_GRACE_S = 30.0


@dataclass(frozen=True)
class ProjectChoice:
    """The project that the server works on, as the options of the command line name it."""

    directory: Path | None = None
    profile: str | None = None

    @property
    def folder(self) -> Path:
        """The folder in which verbs run, absolute."""
        return (self.directory or Path()).absolute()

    def options(self) -> list[str]:
        """The global options of the command line."""
        # Verbs run in the folder, so a relative path would be looked up below it.
        directory = ["--project", str(self.folder)] if self.directory is not None else []
        return [*directory, *(["--profile", self.profile] if self.profile is not None else [])]


class VerbProcesses:
    """The port ``RunVerb`` with one process for each call.

    Args:
        project: the project of the verbs.
        environ: their environment variables.
        most_output_bytes: a verb that prints more is stopped.
        grace_s: how long a verb that is stopped may take before it is killed.
    """

    def __init__(
        self,
        project: ProjectChoice,
        environ: Mapping[str, str],
        *,
        most_output_bytes: int = _MOST_OUTPUT_BYTES,
        grace_s: float = _GRACE_S,
    ) -> None:
        self._project = project
        self._environ = dict(environ)
        self._most_output_bytes = most_output_bytes
        self._grace_s = grace_s
        self._slots = anyio.Semaphore(_MOST_PROCESSES)

    async def __call__(self, words: Sequence[str], *, timeout_s: float = QUICK_S, as_json: bool = True) -> VerbOutput:
        """The output of ``headrace WORDS``.

        Raises:
            VerbFailedError: MCP.TIMEOUT or MCP.TOO_MUCH_OUTPUT; the process and its JVM are stopped.
        """
        form = ["--output", "json"] if as_json else []
        # -P: files of the project, which may be called json.py, do not replace modules.
        command = [sys.executable, "-P", "-m", "headrace", *self._project.options(), *form, *words]
        async with self._slots, self._started(command) as process:
            with anyio.move_on_after(timeout_s):
                return await self._finished(process, words)
        raise VerbFailedError.of(PipelineError("MCP.TIMEOUT", verb=words[0], seconds=f"{timeout_s:g}"))

    @asynccontextmanager
    async def _started(self, command: Sequence[str]) -> AsyncIterator[Process]:
        """The process; at the end of the block, what still runs of it is stopped."""
        process = await anyio.open_process(
            command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self._project.folder,
            env=self._environ,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop(process)

    async def _finished(self, process: Process, words: Sequence[str]) -> VerbOutput:
        printed = {"stdout": b"", "stderr": b""}
        too_much = False

        async def read_stdout(stream: ByteReceiveStream) -> None:
            nonlocal too_much
            async for chunk in stream:
                printed["stdout"] += chunk
                if len(printed["stdout"]) > self._most_output_bytes:
                    too_much = True
                    _signal(process, signal.SIGKILL)
                    return

        async def read_stderr(stream: ByteReceiveStream) -> None:
            async for chunk in stream:
                printed["stderr"] = (printed["stderr"] + chunk)[-_KEPT_STDERR_BYTES:]

        if process.stdout is None or process.stderr is None:
            raise TypeError("the process has no pipes")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_stdout, process.stdout)
            tasks.start_soon(read_stderr, process.stderr)
            exit_code = await process.wait()
        if too_much:
            limit = self._most_output_bytes // 1_000_000
            raise VerbFailedError.of(PipelineError("MCP.TOO_MUCH_OUTPUT", verb=words[0], megabytes=limit))
        stdout, stderr = (printed[name].decode("utf-8", "replace") for name in ("stdout", "stderr"))
        return VerbOutput(exit_code, stdout, stderr)

    async def _stop(self, process: Process) -> None:
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
            with anyio.move_on_after(self._grace_s):
                await process.wait()
        # A JVM that its process has left behind is in the same group.
        _signal(process, signal.SIGKILL)
        with suppress(ProcessLookupError):
            await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to the process and those that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)

"""The process of the worker: imports what verbs need, serves, and becomes a verb in each process that it forks."""

from __future__ import annotations

import atexit
import fcntl
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from headrace.worker.modules import ImportedCode
from headrace.worker.place import UnsafePlace, WorkerPlace, worker_place
from headrace.worker.server import Worker
from headrace.worker.traits import traits
from headrace.worker.verb_process import VerbProcess, VerbRequest

# What the verbs import; a process that is forked has it already. By name, for the worker is far below them.
_PRELOADED = (
    "headrace.cli.main",
    "headrace.cli.changes",
    "headrace.cli.inspect",
    "headrace.cli.update",
    "headrace.project.open",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "pyspark.testing",
    "rich.console",
    "rich.text",
)
# A plan, for most verbs; and for queries one that reads, groups and sorts some rows of the only table that is in every
# project. Java compiles what it runs often, hence three times.
_QUERY = (
    "SELECT level, count(*) AS events, max(id) AS id FROM (SELECT * FROM event_log LIMIT 100) GROUP BY level ORDER BY 1"
)
_WARM_UPS = (("plan",), *3 * (("sql", _QUERY),))
_PRIVATE = 0o077
_BACKLOG = 64
_INTERRUPTED = 130


def main() -> None:
    """Serve the project in the folder that is named first.

    The second word is how many seconds to stay idle, the third the process that owns the worker, which must be its
    parent: the worker ends with it.
    """
    root, idle_s = Path(sys.argv[1]), float(sys.argv[2])
    owner = _owner(int(sys.argv[3])) if len(sys.argv) > 3 else None
    # The folder of the caller, which `-m` puts first.
    del sys.path[0]
    place = worker_place(root, os.environ)
    place.make()
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("a worker of this project is running")
    for name in _PRELOADED:
        import_module(name)
    # All verbs have the same folders for what they print and for tables without a storage: they are part of what the
    # JVM is started from. The worker removes them at its end.
    import_module("headrace.project.scratch").scratch("logs")
    code = ImportedCode.now()
    environ = dict(os.environ)
    with _listener(place) as listener:
        warm_ups = [partial(_warm_up, root, environ, words) for words in _WARM_UPS]
        worker = Worker(listener, traits(environ), warm_ups, idle_s, code, owner)
        forked = worker.serve()
    if forked is not None:
        os.close(lock)
        _run(forked)
        return
    place.socket_file.unlink(missing_ok=True)
    worker.close()
    if worker.is_outdated:
        atexit._run_exitfuncs()  # noqa: SLF001 - a process that is replaced does not run them
        os.execve(sys.executable, [sys.executable, "-m", "headrace.worker", *sys.argv[1:]], environ)  # noqa: S606 - itself


def _owner(pid: int) -> int:
    """A file that can be read once the owner has ended."""
    try:
        owner = os.pidfd_open(pid)
    except ProcessLookupError:
        sys.exit("the process that owns the worker has ended")
    if os.getppid() != pid:
        # It has ended before, and the process is another one with its id.
        sys.exit("the process that owns the worker has ended")
    return owner


def _listener(place: WorkerPlace) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    # Left by a worker that was killed: whoever has the lock is the only one.
    place.socket_file.unlink(missing_ok=True)
    before = os.umask(_PRIVATE)
    try:
        listener.bind(str(place.socket_file))
    finally:
        os.umask(before)
    place.socket_file.chmod(0o600)
    listener.listen(_BACKLOG)
    return listener


def _warm_up(root: Path, environ: dict[str, str], verb: Sequence[str]) -> VerbRequest:
    """A verb that nobody sees; it loads and compiles what other verbs use."""
    files = [os.open(os.devnull, flags) for flags in (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)]
    files.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
    words = ("--project", str(root), *verb)
    umask = os.umask(_PRIVATE)
    os.umask(umask)
    return VerbRequest(words, environ, ("", *sys.path), umask, (), "headrace", tuple(files))


def _run(forked: VerbProcess) -> None:
    """Run a verb as a process of its own does."""
    code = 1

    def report() -> None:
        forked.report(code)

    try:
        # It is registered first, so that it runs last.
        atexit.register(report)
        forked.enter()
        import_module("headrace.cli.main").main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    except KeyboardInterrupt:
        # It came before the command line could handle it.
        code = _INTERRUPTED
        sys.exit(code)


if __name__ == "__main__":
    try:
        main()
    except UnsafePlace as unsafe:
        sys.exit(str(unsafe))

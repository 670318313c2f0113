"""Where a process starts: answers a shell that completes a command line, or runs the command line."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from headrace.model.version import __version__


def main() -> None:
    """Run this process."""
    if "_HEADRACE_COMPLETE" in os.environ:
        lines = import_module("headrace.cli.completion.answer").answer(sys.argv[1:], os.environ)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"headrace {__version__}\n")
        return
    code = import_module("headrace.cli.warm").run_in_worker(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    # Imports the parser and everything that the verbs need, which takes a hundred times longer.
    import_module("headrace.cli.main").main()

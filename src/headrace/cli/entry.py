"""Where a process starts: answers a shell that completes a command line, or runs the command line."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from headrace.cli.arguments import verb_in


def main() -> None:
    """Run this process."""
    if "_HEADRACE_COMPLETE" in os.environ:
        lines = import_module("headrace.cli.completion.answer").answer(sys.argv[1:], os.environ)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return
    # Its verbs need no project. The module of all verbs imports what they need, which takes some seconds.
    module = "headrace.cli.docs" if verb_in(sys.argv[1:]) == "docs" else "headrace.cli.main"
    import_module(module).main()

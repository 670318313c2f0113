"""SIGTERM ends what a server reads, although its client keeps stdin open."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import sys
from headrace.mcp.end_of_input import ends_with_sigterm
with ends_with_sigterm() as got_signal:
    print(sys.stdin.readline().strip(), flush=True)
    print(repr(sys.stdin.readline()), got_signal.is_set(), flush=True)
"""


def test_sigterm_is_the_end_of_input():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"a request\n")
        process.stdin.flush()
        passed_on = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()

    assert (passed_on, rest) == (b"a request\n", b"'' True\n")

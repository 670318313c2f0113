"""The JVM that the worker lends to the process of a verb, and how the process gives it back."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.worker.frames import send


@dataclass(frozen=True)
class KeptJvm:
    """A JVM that outlives the verb that started it: how to reach it, and what it was started from.

    It exits when the last copy of *stdin* is closed. *output* is what it prints.
    """

    pid: int
    port: int
    secret: str = field(repr=False)
    # A digest of everything that a new JVM would be started from.
    fingerprint: str
    stdin: int
    output: int

    def message(self) -> dict[str, Any]:
        """The part of it that is sent as a message; its files are sent with it."""
        return {
            "pid": self.pid,
            "port": self.port,
            "secret": self.secret,
            "fingerprint": self.fingerprint,
        }

    @staticmethod
    def of(message: dict[str, Any], stdin: int, output: int) -> KeptJvm:
        """The JVM that another process has sent."""
        texts = str(message["secret"]), str(message["fingerprint"])
        return KeptJvm(int(message["pid"]), int(message["port"]), *texts, stdin, output)


class Lender:
    """What the process of a verb says to its worker about the JVM.

    A JVM that is in use when the process ends, however that happens, is ended by the worker.
    """

    def __init__(self, jvm: KeptJvm | None, channel: socket.socket) -> None:
        # Its child at this moment; it may be killed before the JVM starts.
        self.worker_pid = os.getppid()
        self._jvm = jvm
        self._channel = channel

    @property
    def has_jvm(self) -> bool:
        """Whether there is a JVM that could be borrowed."""
        return self._jvm is not None

    def borrow(self, fingerprint: str) -> KeptJvm | None:
        """The worker's JVM, if it was started from the same as a new one would be; otherwise it is ended."""
        jvm, self._jvm = self._jvm, None
        if jvm is None:
            return None
        if jvm.fingerprint == fingerprint and self._say({"using": True}):
            return jvm
        self.end(jvm)
        return None

    def keep(self, jvm: KeptJvm) -> None:
        """Let the worker keep a JVM that this process has started, and uses."""
        self._say({"using": True, "jvm": jvm.message()}, (jvm.stdin, jvm.output))

    def give_back(self) -> None:
        """Nothing of this verb is left in the JVM; the next one may use it."""
        self._say({"using": False})

    def end(self, jvm: KeptJvm) -> None:
        """Let the worker end a JVM."""
        self._say({"end": True})
        os.close(jvm.stdin)
        os.close(jvm.output)

    def ending(self) -> None:
        """This process is about to end, and its caller is about to hear so: the worker can take the next verb."""
        self._say({"ending": True})

    def _say(self, message: dict[str, Any], files: tuple[int, ...] = ()) -> bool:
        # A worker that was killed keeps nothing; the JVM ends with this process.
        with suppress(OSError):
            send(self._channel, message, files)
            return True
        return False


_lender: Lender | None = None


def lend_to_this_process(lender: Lender) -> None:
    """Let the session of this process use the JVM of a worker."""
    global _lender  # noqa: PLW0603 - a process has one session, and one JVM
    _lender = lender


def lender() -> Lender | None:
    """Who lends a JVM to this process; None if it was not forked by a worker."""
    return _lender

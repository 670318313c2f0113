"""What the command line makes of signals that come where nothing runs yet."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

import pytest

from headrace.cli import main as entry
from headrace.cli.failures import Terminated


@pytest.mark.parametrize(
    ("words", "continuous", "code"),
    [(["run"], False, 130), (["run", "--continuous"], False, 0), (["run"], True, 0), (["plan"], True, 130)],
)
def test_sigterm_before_an_update_exits_with_the_same_code_as_during_it(
    cli: Any, words: list[str], continuous: Any, code: int
) -> None:
    cli.project.error = Terminated()
    cli.project.continuous = continuous

    assert cli(*words) == (code, "", "")


def test_sigterm_raises_keyboard_interrupt_as_soon_as_the_command_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", installed.__setitem__)
    monkeypatch.setattr(entry, "call", lambda _words: 0)

    with pytest.raises(SystemExit):
        entry.main()

    frame: FrameType | None = None
    with pytest.raises(KeyboardInterrupt):
        installed[signal.SIGTERM](signal.SIGTERM, frame)

"""What makes a verb run without the worker: everything that the worker's imports or Java have already looked at."""

from __future__ import annotations

import os

import pytest

from headrace.worker import traits as module
from headrace.worker.traits import differences, is_per_verb, traits


def test_two_shells_of_a_user_are_the_same() -> None:
    one = traits({"PATH": "/bin", "PWD": "/a", "SSH_CONNECTION": "1", "HEADRACE_SECRET_A_B": "x", "TERM": "xterm"})
    other = traits({"PATH": "/bin", "PWD": "/b", "TMUX": "1", "HEADRACE_PROFILE": "prod", "WATCHDOG_USEC": "9"})

    assert differences(one, other) == []


@pytest.mark.parametrize(
    "name", ["MY_VAR", "JAVA_HOME", "SPARK_LOCAL_DIRS", "TZ", "LC_ALL", "AWS_PROFILE", "PATH", "PYTHONPATH", "TERMINAL"]
)
def test_another_variable_differs_and_its_value_is_not_shown(name: str) -> None:
    assert not is_per_verb(name)
    assert differences(traits({name: "one"}), traits({name: "other"})) == [name]
    assert differences(traits({name: "one"}), traits({})) == [name]


def test_another_version_or_limit_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = traits({})
    monkeypatch.setattr(module, "__version__", "0.0.0")

    assert differences(before, traits({})) == ["its version"]
    assert differences(before, {}) == sorted(f"its {name}" for name in before if name != "environment")


def test_the_process_has_the_traits_of_a_fork() -> None:
    before = traits(os.environ)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, b"same" if not differences(before, traits(os.environ)) else b"other")
        os._exit(0)
    os.wait()

    assert os.read(reading, 10) == b"same"
    os.close(reading)
    os.close(writing)

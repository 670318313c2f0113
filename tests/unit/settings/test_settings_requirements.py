"""What is shown of a ``pip install`` line that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.model.location import Location
from headrace.project.loading.load_result import PackageChecker

HERE = Location("transformations/setup.py", 1)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("https://bob:s3cret@host/no-wheel.whl", "https://...@host/no-wheel.whl"),
        ("-ihttps://bob:s3cret@host/simple ./own", "-i ... ./own"),
        ("--index-url https://bob:s3cret@host/simple ./own", "--index-url ... ./own"),
        ("--extra-index-url=https://host/?token=s3cret ./own", "--extra-index-url ... ./own"),
        ("git+https://bob:a/s3cret@x@host/own", "git+https://...@host/own"),
        ("pkg --token s3cret other", "pkg --token ..."),
        ("--token=s3cret pkg", "--token ..."),
        ("-xs3cret pkg", "-x ..."),
        ("https://bob:s3cret@host/own 'unclosed", "https://...@host/own 'unclosed"),
    ],
)
def test_an_unreadable_pip_install_line_is_shown_without_secrets(tmp_path: Path, words: str, shown: str) -> None:
    needs = PackageChecker([])

    needs.check(words, tmp_path, HERE)

    (problem,) = needs.problems
    assert (problem.code, problem.params["text"]) == ("PACKAGE.UNREADABLE", shown)
    assert "s3cret" not in problem.render()


def test_a_pip_option_may_be_joined_with_its_value(tmp_path: Path) -> None:
    (tmp_path / "needed.txt").write_text("no-such-package-as-this\n")
    needs = PackageChecker([])

    needs.check("-ihttps://host/simple -rneeded.txt", tmp_path, HERE)

    assert [problem.code for problem in needs.problems] == ["PACKAGE.MISSING"]

"""A worker finds that a package was upgraded, edited, installed or removed since it imported it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.worker.modules import ImportedCode


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / "imported_by_a_worker.py"
    file.write_text("A = 1\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_by_a_worker")
    yield file
    del sys.modules["imported_by_a_worker"]


def test_nothing_has_changed_at_first(package: Path) -> None:
    assert ImportedCode.now().changed() is None


def test_an_edited_module_is_found(package: Path) -> None:
    code = ImportedCode.now()

    package.write_text("A = 10\n")

    assert code.changed() == str(package)


def test_an_installed_or_removed_package_is_found(package: Path) -> None:
    code = ImportedCode.now()
    (package.parent / "new_package").mkdir()
    assert code.changed() == str(package.parent)

    code = ImportedCode.now()
    package.unlink()
    assert code.changed() in (str(package), str(package.parent))

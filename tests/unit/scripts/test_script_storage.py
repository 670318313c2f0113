"""What a script is called, and with it its checkpoints."""

from __future__ import annotations

import pytest

from headrace.scripts.script_storage import script_storage_of


@pytest.mark.parametrize(
    ("file", "name"),
    [("main.py", "main"), ("a/main.py", "a/main"), ("b/main.py", "b/main"), ("main.ipynb", "main.ipynb")],
)
def test_scripts_with_the_same_file_name_are_distinguished_by_their_folders(tmp_path, file, name):
    around = script_storage_of(tmp_path, {})

    assert around.script_name(tmp_path / file) == name


def test_a_script_outside_the_project_is_named_by_its_full_path(tmp_path):
    around = script_storage_of(tmp_path / "project", {})

    assert around.script_name(tmp_path / "main.py") == f"{tmp_path}/main"

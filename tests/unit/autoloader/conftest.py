"""What tests of Auto Loader share."""

from __future__ import annotations

import pytest


@pytest.fixture
def data(tmp_path):
    """The folder that is read."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder

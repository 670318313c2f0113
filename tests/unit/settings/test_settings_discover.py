"""Where settings are found."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.settings.discover import FAMILIES, find_settings


@pytest.mark.parametrize("name", [name for family in FAMILIES for name in family])
def test_the_settings_file_of_a_parent_folder_is_found(tmp_path, name):
    (tmp_path / name).write_text("")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    assert find_settings(below) == tmp_path / name


def test_the_nearest_folder_wins_when_several_have_settings(tmp_path):
    (tmp_path / "pipeline.yml").write_text("")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "spark-pipeline.yml").write_text("")

    assert find_settings(tmp_path / "a").name == "spark-pipeline.yml"


def test_a_headrace_settings_file_wins_over_a_spark_pipeline_file(tmp_path):
    (tmp_path / "pipeline.yaml").write_text("")
    (tmp_path / "spark-pipeline.yml").write_text("")

    assert find_settings(tmp_path).name == "pipeline.yaml"


@pytest.mark.parametrize("family", FAMILIES)
def test_two_settings_files_of_the_same_family_are_refused(tmp_path, family):
    for name in family[:2]:
        (tmp_path / name).write_text("")

    with pytest.raises(PipelineError) as raised:
        find_settings(tmp_path)

    assert raised.value.code == "SETTINGS.AMBIGUOUS"
    assert (raised.value.params["first"], raised.value.params["second"]) == family[:2]


def test_the_error_names_the_start_folder_when_no_settings_file_is_found(tmp_path):
    (tmp_path / "pipeline.yml").mkdir()

    with pytest.raises(PipelineError) as raised:
        find_settings(tmp_path)

    assert (raised.value.code, raised.value.params["start"]) == ("SETTINGS.NOT_FOUND", str(tmp_path))

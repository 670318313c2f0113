"""A pipeline on a disk over files of Azure and Google, whose settings say how they are reached."""

from __future__ import annotations

import json
import uuid

import obstore
import pytest
from tests.command_line import in_own_process

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.long(
        guard=(
            "tests/unit/autoloader/test_cloud_files.py::test_notifications_of_other_clouds_are_refused_by_name",
            "tests/unit/settings/test_stores.py::test_containers_and_buckets_of_other_clouds_are_reached_as_the_settings_say",
            "tests/spark/test_auto_loader.py::test_files_are_ingested_once_and_a_flow_without_new_files_is_up_to_date",
        )
    ),
]
FLOWS = """
from headrace import pipelines as dp


def files(path):
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load(path)


@dp.table
def azure():
    return files("{azure}/in").select("id", "_metadata.file_path")


@dp.table
def google():
    return files("{google}/in").select("id", "_metadata.file_path")
"""
SETTINGS = """
name: shop
stores:
  {azure}:
    endpoint: {azure_url}
    account_key: ${{env:LANDING_KEY}}
  {google}:
    endpoint: {google_url}
    anonymous: true
"""
ROWS = """
SELECT 'azure' AS cloud, id, file_path FROM azure UNION ALL SELECT 'google', id, file_path FROM google ORDER BY 1, 2
"""


def test_files_of_azure_and_google_are_read_once_and_no_key_is_kept(tmp_path, azure, google, monkeypatch):
    name = f"landing-{uuid.uuid4().hex[:12]}"
    roots = {"azure": azure.make_container(name), "google": google.make_bucket(name)}
    monkeypatch.setenv("LANDING_KEY", azure.connection.account_key)
    settings = SETTINGS.format(**roots, azure_url=azure.url, google_url=google.url)
    (tmp_path / "pipeline.yml").write_text(settings, encoding="utf-8")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.py").write_text(FLOWS.format(**roots), encoding="utf-8")

    outcomes = []
    for number in (1, 2):
        content = b'{"id": %d}\n' % number
        obstore.put(azure.client(name), f"in/{number}.json", content)
        google.put(name, f"in/{number}.json", content)
        done = in_own_process(tmp_path, "--output", "json", "run")
        assert done.returncode == 0, done.stdout + done.stderr
        outcomes.append([flow["rows_written"] for flow in json.loads(done.stdout)["flows"]])

    assert outcomes == [[1, 1], [1, 1]]
    found = in_own_process(tmp_path, "--output", "json", "sql", ROWS)
    assert json.loads(found.stdout) == [
        {"cloud": cloud, "id": number, "file_path": f"{roots[cloud]}/in/{number}.json"}
        for cloud in ("azure", "google")
        for number in ("1", "2")
    ]
    key = azure.connection.account_key.encode()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and key in file.read_bytes()]

"""A table on S3 is published in a metastore that has no access to the bucket."""

from __future__ import annotations

import json

import pytest
from tests.command_line import in_own_process
from tests.servers.hive import running_metastore

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.long(
        guard=(
            "tests/unit/project/test_publication.py::test_an_update_publishes_what_its_tables_say",
            "tests/unit/stores/test_s3.py::test_the_event_log_is_written_and_read",
        )
    ),
]
ORDERS = """\
from headrace import pipelines as dp


@dp.materialized_view
def orders():
    return spark.range(3)
"""


def project(folder, code, **settings):
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / "a.py").write_text(code, encoding="utf-8")
    (folder / "pipeline.yml").write_text(json.dumps({"name": folder.name, **settings}), encoding="utf-8")
    return folder


def test_a_table_in_a_bucket_is_published_in_a_metastore_without_access_to_it(tmp_path, s3):
    bucket = s3.make_bucket("published")
    with running_metastore(tmp_path / "metastore") as metastore:
        # A machine with much to do may let the metastore wait.
        conf = {"hive.metastore.client.socket.timeout": "120s"}
        catalogs = {"lake": {"uri": metastore.uri, "conf": conf}}
        storage = f"s3://{bucket}/shop"
        shop = project(tmp_path / "shop", ORDERS, storage=storage, catalog="lake", schema="sales", catalogs=catalogs)

        ran = in_own_process(shop, "run", environ=s3.environ)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    status = json.loads(in_own_process(shop, "--output", "json", "status", environ=s3.environ).stdout)
    assert [one["state"] for one in status["published"]["tables"]] == ["published"]

"""What a flow's identity and its sources are made of, without Spark."""

from __future__ import annotations

import pytest

from headrace.project.resolution.resolver import parameters_digest
from headrace.spark.analysis.plans import can_be_listed


@pytest.mark.parametrize(
    ("conf", "changes"),
    [
        ({"spark.sql.session.timeZone": "Asia/Tokyo"}, True),
        ({"mine": "1"}, True),
        ({"spark.executor.memory": "8g"}, False),
    ],
)
def test_digest_changes_with_values_that_can_affect_results(conf, changes):
    bare = parameters_digest({"limit": "secret-1"}, {})

    assert (parameters_digest({"limit": "secret-1"}, conf) != bare) is changes
    assert parameters_digest({"limit": "secret-2"}, {}) != bare
    assert "secret" not in bare


@pytest.mark.parametrize("path", ["/a/b", "/a/*/b?.json", "file:/a", "file:///a b"])
def test_local_paths_can_be_listed(path):
    assert can_be_listed(path)


@pytest.mark.parametrize(
    "path",
    ["s3a://b/k", "hdfs:///a", "dbfs:/a", "file://host/a", "file:/a%20b", "a/b", "./a", "/a/{b,c}", "/a/[^b]", r"/a\*"],
)
def test_paths_that_hadoop_interprets_differently_cannot_be_listed(path):
    assert not can_be_listed(path)

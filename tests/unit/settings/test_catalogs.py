"""The section ``catalogs``: which metastores there are, with passwords that are references alone."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.settings.load import load_settings

URI = "uri: thrift://here:9083"


def settings_of(tmp_path, catalogs, environ=None):
    (tmp_path / "pipeline.yml").write_text(f"name: shop\ncatalogs:\n{catalogs}", encoding="utf-8")
    (tmp_path / "transformations").mkdir(exist_ok=True)
    (tmp_path / "transformations" / "a.py").touch()
    return load_settings(tmp_path / "pipeline.yml", environ=environ or {})


def test_a_metastore_is_reached_with_settings_whose_secrets_are_looked_up_late(tmp_path):
    environ = {"STORE_PASSWORD": "given-password"}
    text = f"  lake:\n    {URI}\n    conf:\n      hive.trust.password: ${{env:STORE_PASSWORD}}\n"

    settings = settings_of(tmp_path, text, environ)

    lake = settings.catalogs["lake"]
    conf = lake.resolved_conf(settings.open_secrets(environ), environ)
    assert (lake.uri, conf) == ("thrift://here:9083", {"hive.trust.password": "given-password"})
    assert "STORE_PASSWORD" not in repr(settings)


@pytest.mark.parametrize(
    ("catalogs", "reason"),
    [
        ("  lake: {type: hive}\n", "it is missing"),
        ("  lake: {uri: http://here:9083}\n", "not the address"),
        ("  lake: {uri: thrift://here}\n", "not the address"),
        ("  lake: {uri: thrift://me@here:1}\n", "not the address"),
        ("  my lake: {uri: thrift://here:1}\n", "may contain only"),
        ("  spark_catalog: {uri: thrift://here:1}\n", "Spark's own catalog"),
        (f"  lake: {{{URI}}}\n  Lake: {{{URI}}}\n", "another has this name"),
        (f"  lake: {{type: unity, {URI}}}\n", "Unity Catalog is not supported yet"),
        (f"  lake: {{type: glue, {URI}}}\n", "AWS Glue is not supported yet"),
        (f"  lake:\n    {URI}\n    conf: {{hive.trust.password: abc}}\n", "clear text"),
        (f"  lake:\n    {URI}\n    conf: {{hive.metastore.uris: abc}}\n", "uri sets it"),
    ],
)
def test_a_metastore_that_cannot_be_right_is_refused(tmp_path, catalogs, reason):
    with pytest.raises(Problems, match=reason):
        settings_of(tmp_path, catalogs)

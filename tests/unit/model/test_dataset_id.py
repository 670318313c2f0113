"""Names of datasets by the naming conventions of OpenLineage; nothing secret is in them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.model.addresses import without_secrets
from headrace.model.dataset_id import DatasetId, of_place, of_table, of_topic


@pytest.mark.parametrize(
    ("place", "namespace", "name"),
    [
        ("/data/tables/orders/", "file", "/data/tables/orders"),
        ("/data/a?.json", "file", "/data/a?.json"),
        ("/", "file", "/"),
        ("file:/data/x", "file", "/data/x"),
        ("file:///data/x", "file", "/data/x"),
        ("file://host/data/x", "file://host", "/data/x"),
        ("s3a://lake/raw/in", "s3://lake", "raw/in"),
        ("S3N://lake/", "s3://lake", "/"),
        ("s3a://lake/raw/*.json?versionId=1", "s3://lake", "raw/*.json"),
        ("s3a://lake/raw/a?.json", "s3://lake", "raw/a?.json"),
        ("s3a://AKIA:se/cr+et@lake/raw", "s3://lake", "raw"),
        ("s3://lake/raw/a@b", "s3://lake", "raw/a@b"),
        ("gs://bucket/key", "gs://bucket", "key"),
        ("abfs://box@account.dfs.core.windows.net/p/q", "abfss://box@account.dfs.core.windows.net", "p/q"),
        ("wasbs://box@account.blob.core.windows.net/p", "wasbs://box@account.blob.core.windows.net", "p"),
        ("hdfs://name:8020/user/a@b", "hdfs://name:8020", "/user/a@b"),
        ("hdfs://me:pass/word@name:8020/user", "hdfs://name:8020", "/user"),
        ("hdfs:/user/x", "hdfs", "/user/x"),
        ("dbfs:/mnt/x", "dbfs", "/mnt/x"),
        ("https://me:pw@host/data.csv?sig=abc", "https://host", "/data.csv"),
        ("relative/path", "file", "relative/path"),
    ],
)
def test_places(place, namespace, name):
    assert of_place(place) == DatasetId(namespace, name)


@pytest.mark.parametrize(
    ("servers", "namespace"),
    [
        ("broker", "kafka://broker:9092"),
        (" broker:9093 , other:9092", "kafka://broker:9093"),
        ("SASL_SSL://me:pw@broker:9094", "kafka://broker:9094"),
        ("", "kafka://"),
    ],
)
def test_topics(servers, namespace):
    assert of_topic(servers, "orders") == DatasetId(namespace, "orders")


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        ("jdbc:postgresql://db:5433/shop?user=me&password=pw", "orders", "postgres://db:5433", "shop.public.orders"),
        ("postgresql+pg8000://me:pw@db/shop", 'sales."Orders"', "postgres://db:5432", "shop.sales.Orders"),
        ("jdbc:mysql://db/shop", "`orders`", "mysql://db:3306", "shop.orders"),
        ("mariadb+pymysql://db:3307/shop", "orders", "mysql://db:3307", "shop.orders"),
        (
            "jdbc:sqlserver://db:1433;databaseName=shop;user=me;password=pw",
            "[dbo].[orders]",
            "mssql://db:1433",
            "shop.dbo.orders",
        ),
        ("jdbc:oracle:thin:@//db:1522/shop", "sales.orders", "oracle://db:1522", "shop.sales.orders"),
        ("jdbc:oracle:thin:me/pw@db:1522:shop", "orders", "database://", "orders"),
        ("jdbc:postgresql://db/shop", "(SELECT * FROM t WHERE key = 'secret') q", "postgres://db:5432", "shop"),
        ("jdbc:postgresql://db/shop", "other.public.t", "postgres://db:5432", "other.public.t"),
        ("sqlite:////data/shop.db", "orders", "file", "/data/shop.db.orders"),
        ("jdbc:sqlite:/data/shop.db", "SELECT 1", "file", "/data/shop.db"),
        ("jdbc:clickhouse://db:8123/shop", "orders", "clickhouse://db:8123", "shop.orders"),
        ("postgresql://me:12/34@db/shop", "orders", "database://", "orders"),
        ("postgresql://me:p#w@db/shop", "orders", "database://", "orders"),
        ("postgresql://me:12?34@db/shop", "orders", "database://", "orders"),
        ("nonsense", "orders", "database://", "orders"),
        ("http://[", "orders", "database://", "orders"),
    ],
)
def test_tables_of_databases(url, table, namespace, name):
    found = of_table(url, table)

    assert found == DatasetId(namespace, name)


SCHEMES = st.sampled_from(["s3a", "s3", "gs", "https", "hdfs", "postgresql", "mysql+pymysql", "kafka"])
SECRETS = st.text("abCD01+/=:@", min_size=1, max_size=12).map(lambda text: f"CANARY{text}CANARY")


@settings(max_examples=examples(50, 2000))
@given(SCHEMES, SECRETS, SECRETS)
def test_no_password_and_no_query_is_in_a_name(scheme, password, signature):
    url = f"{scheme}://user:{password}@host.example.com/path/x?sig={signature}"

    found = [of_place(url), of_table(url, "t"), of_topic(url, "t")]

    # Passwords with characters that separate the parts of an address are no part of a valid one.
    is_valid = not set(password) & set("/@:")
    assert "CANARY" not in str([one for one in found if is_valid])


def test_addresses_in_texts_are_cut_down_to_the_place():
    text = "cannot read s3a://KEY:SECRET@bucket/in, https://store/x.csv?sig=SECRET&se=1 and /data/a?.json"

    assert without_secrets(text) == "cannot read s3a://bucket/in, https://store/x.csv and /data/a?.json"

"""A stream of eight rows in two files, and the ways to deliver it to a sink named ``out``."""

from __future__ import annotations

from deltalake import DeltaTable

FIRST, SECOND = ([{"id": n, "name": f"n{n}"} for n in range(start, start + 4)] for start in (0, 4))
IDS = list(range(8))
SOURCE = """
    @dp.table(schema="id INT, name STRING")
    def source():
        return spark.readStream.schema("id INT, name STRING").json("unused")

    def stream():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """
FLOW = """
    @dp.append_flow(target="out")
    def deliver():
        return stream().repartition(2)
    """


def sink(kind, **options):
    return f'\n    dp.create_sink("out", {kind!r}, {options!r})\n'


def ids(rows):
    return sorted(int(row["id"]) for row in rows)


def rows_of_delta(path):
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def jdbc(postgres, **more):
    return sink("jdbc", **postgres.options(dbtable="out_orders", **more))

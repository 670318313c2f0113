"""What a name stands for behind a choice: what is true whichever way was taken, and otherwise nothing."""

from __future__ import annotations

import pytest

HEAD = """
stream = spark.readStream.table("a")
batch = spark.table("a")
"""


@pytest.mark.parametrize(
    "text",
    [
        "if x:\n    rows = batch\nelse:\n    rows = stream\nif x:\n    rows.show()\nelse:\n    rows.writeStream",
        "rows = batch\nif x:\n    rows = stream\nrows.show()",
        "rows = stream if x else batch\nrows.show()\nrows.writeStream",
        "reader = spark.readStream if x else spark.read\nrows = reader.table('a')\nrows.show()\nrows.writeStream",
        "try:\n    rows = stream\nexcept OSError:\n    rows = batch\nrows.show()",
        "for x in y:\n    batch = stream\nbatch.show()",
        "while x:\n    batch = stream\nbatch.show()",
        "match x:\n    case 1:\n        batch = stream\nbatch.show()",
        "def rows(x):\n    if x:\n        return batch\n    return stream\nrows(1).show()",
        "def look(rows):\n    rows.show()\nlook(stream)\nlook(batch)",
        "rows = batch\ndef look():\n    rows.show()\nlook()\nrows = stream",
        "for rows in [stream, batch]:\n    rows.show()",
        "class A:\n def a(self):\n  self.rows = stream\n def b(self):\n  self.rows = batch\n  self.rows.show()",
        "if not stream.isStreaming:\n    stream.show()",
        "if stream.isStreaming:\n    stream.writeStream\nelse:\n    stream.show()",
        "def look():\n    if stream.isStreaming:\n        return stream.writeStream\n    stream.show()",
        "stream.show() if not stream.isStreaming else stream.writeStream",
    ],
)
def test_value_that_may_be_a_stream_or_a_batch_is_not_reported(found, text):
    assert found(HEAD + text) == []


@pytest.mark.parametrize(
    "text",
    [
        "if x:\n    rows = stream\nelse:\n    rows = stream.filter('a > 1')\nrows.show()",
        "if x:\n    rows = stream\n    rows.show()",
        "rows = batch\nif x:\n    rows = stream\n    rows.show()",
        "rows = None\nif x:\n    rows = stream\nrows.show()",
        "if x:\n    raise ValueError\nelse:\n    batch = stream\nbatch.show()",
        "for x in y:\n    stream = stream.withColumn(x, y)\nstream.show()",
        "class A:\n    def a(self):\n        self.rows = stream\n    def c(self):\n        self.rows.show()",
        "if not stream.isStreaming:\n    raise TypeError\nstream.show()",
        "if stream.isStreaming:\n    stream.writeStream\nstream.show()",
    ],
)
def test_value_that_is_a_stream_on_every_path_is_reported(found, text):
    assert [rule for rule, _ in found(HEAD + text)] == ["stream-action"]


WATERMARKS = """
    from pyspark.sql import functions as F
    if x:
        rows = spark.readStream.table("a"){first}
    else:
        rows = spark.readStream.table("b"){second}
    hours = rows.groupBy(F.window("at", "1 hour")).count()
    hours.writeStream.option("checkpointLocation", "/c").toTable("u")
    """


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        ("", "", ["no-watermark"]),
        ('.withWatermark("at", "1 hour")', "", []),
        ('.withWatermark("seen", "1 hour")', '.withWatermark("at", "1 hour")', []),
        ('.withWatermark("seen", "1 hour")', '.withWatermark("seen", "2 hours")', ["unbounded-state"]),
    ],
)
def test_missing_watermark_is_not_reported_if_one_branch_has_it(found, first, second, rules):
    assert [rule for rule, _ in found(WATERMARKS.format(first=first, second=second))] == rules


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("writer = stream.writeStream\nwriter.toTable('t')", ["missing-checkpoint"]),
        ("writer = stream.writeStream\nwriter.option('checkpointLocation', '/c')\nwriter.toTable('t')", []),
        (
            "writer = stream.writeStream\nif x:\n writer = writer.option('checkpointLocation', y)\nwriter.toTable('t')",
            [],
        ),
        (
            "writer = stream.writeStream\nif x:\n    writer = writer.trigger(availableNow=True)\nwriter.toTable('t')",
            ["missing-checkpoint"],
        ),
        ("reader = spark.readStream.format('csv')\nreader.schema('a INT')\nrows = reader.load('/x')", []),
        ("reader = spark.readStream.format('csv')\nif x:\n    reader = reader.schema(y)\nrows = reader.load('/x')", []),
    ],
)
def test_options_of_reader_and_writer_variables_are_tracked(found, text, rules):
    assert [rule for rule, _ in found(HEAD + text)] == rules


@pytest.mark.parametrize("change", ["base += '/d'", "if x:\n    base = '/d'", "for x in y:\n    base = x"])
def test_checkpoint_path_that_changes_is_not_compared(found, change):
    text = f"""base = "/c"
stream.writeStream.option("checkpointLocation", base).toTable("t")
{change}
stream.writeStream.option("checkpointLocation", base).toTable("u")
"""

    assert "shared-checkpoint" not in [rule for rule, _ in found(HEAD + text)]

"""Whether one call of a function of batches comes to two places, and which function it is."""

from __future__ import annotations

import textwrap

import pytest

HEAD = """
def write(batch, number):
{body}


stream = spark.readStream.table("a")
stream.writeStream.foreachBatch(write).option("checkpointLocation", "/c").start()
"""
SAVE = 'batch.write.format("noop").mode("overwrite").save()'


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (f"{SAVE}\n{SAVE}", ["batch-computed-again"]),
        (f"if number:\n    {SAVE}\n{SAVE}", ["batch-computed-again"]),
        (f"if number:\n    {SAVE}\nelse:\n    {SAVE}", []),
        (f"{SAVE} if number else {SAVE}", []),
        (f"match number:\n    case 0:\n        {SAVE}\n    case 1:\n        {SAVE}", []),
        (f"if number:\n    number += 1\nelse:\n    {SAVE}\n    return\n{SAVE}", []),
        (f"for one in (number,):\n    if one:\n        {SAVE}\n        continue\n    {SAVE}", []),
        (f"try:\n    {SAVE}\nexcept OSError:\n    {SAVE}", []),
    ],
)
def test_batch_is_reported_if_one_call_computes_it_twice(found, body, rules):
    text = HEAD.format(body=textwrap.indent(body, "    "))

    assert [rule for rule, _ in found(text)] == rules


@pytest.mark.parametrize("limit", ["limit(0)", "limit(3)"])
def test_limit_is_reported_unless_it_is_zero(found, limit):
    body = f'    batch.{limit}.write.format("noop").mode("ignore").save()'

    rules = [rule for rule, _ in found(HEAD.format(body=body))]

    assert rules == ([] if limit == "limit(0)" else ["limit-in-foreach-batch"])


@pytest.mark.parametrize(
    "other", ["", "class Report:\n    def write(self, rows):\n        pass", "class A:\n    async def write(self): ..."]
)
def test_function_is_not_confused_with_a_method_of_the_same_name(found, other):
    text = HEAD.format(body="    batch.show()").replace("\n\nstream", f"\n{other}\n\nstream", 1)

    assert [rule for rule, _ in found(text)] == ["show-in-foreach-batch"]


@pytest.mark.parametrize("method", ["(self, batch, number)", "(cls, batch, number)", "(batch, number)"])
def test_batch_parameter_of_a_method_follows_self_or_cls(found, method):
    kind = {"(cls": "    @classmethod\n", "(bat": "    @staticmethod\n"}.get(method[:4], "")
    text = f"""
class Writes:
{kind}    def write{method}:
        batch.show()

    def start(self, stream):
        spark.readStream.table("a").writeStream.foreachBatch(self.write).option("checkpointLocation", "/c").start()
"""
    assert [rule for rule, _ in found(text)] == ["show-in-foreach-batch"]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('spark.readStream.json("/a", "id INT")', []),
        ('spark.readStream.load("/a", "json", "id INT")', []),
        ('spark.readStream.xml("/a", "row", "id INT")', []),
        ('spark.readStream.json("/a")', ["missing-schema"]),
        ('spark.readStream.table("a").na.fill(0).cache()', ["stream-cache"]),
        ('spark.readStream.table("a").na.fill(0).writeStream.toTable("b")', ["missing-checkpoint"]),
        ('import dltools\nspark.readStream.table("a").writeStream.toTable("b")', ["missing-checkpoint"]),
    ],
)
def test_positional_arguments_are_recognized_and_names_match_exactly(found, text, rules):
    assert [rule for rule, _ in found(text)] == rules

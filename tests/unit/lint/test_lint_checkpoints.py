"""Checkpoints: no replacement lets two queries meet on one, or a target get its rows twice."""

from __future__ import annotations

import textwrap

import pytest

from headrace.lint.lint_files import lint_text

SOURCE = 'src = spark.readStream.table("t")\n'


@pytest.fixture
def replacements():
    """The replacements of one rule in a program, in reading order."""

    def look(text, rule_id):
        findings = lint_text(textwrap.dedent(text), ".py", "a.py").findings
        return [finding.fix for finding in findings if finding.rule.id == rule_id]

    return look


def batches(frame, function, checkpoint):
    return f'{frame}.writeStream.option("checkpointLocation", "{checkpoint}").foreachBatch({function}).start()\n'


def table(frame, name, checkpoint):
    return f'{frame}.writeStream.option("checkpointLocation", {checkpoint}).toTable("{name}")\n'


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        (batches("src", "f", "/c/f"), batches("src", "g", "/c/g"), []),
        (batches("src", "f", "/c"), batches("src", "g", "/c"), ["shared-checkpoint"]),
        (batches("src", "f", "/c"), batches("src", "f", "/c"), []),
        (batches("src", "f", "/c"), batches("src", "f", "/d"), ["new-checkpoint"]),
        (batches("src.filter('x')", "f", "/c"), batches("src.filter('y')", "f", "/d"), []),
    ],
)
def test_foreach_batch_function_is_the_target_if_options_precede_it(found, first, second, rules):
    functions = "def f(batch, number): pass\ndef g(batch, number): pass\n"

    assert [rule for rule, _ in found(SOURCE + functions + first + second)] == rules


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        ("src.filter('x')", "src.filter('y')", []),
        ("src.filter('x')", "src.filter('x')", ["new-checkpoint"]),
        ("src.filter('x')", "src", []),
        ("src", "spark.readStream.table('t')", ["new-checkpoint"]),
        ("src", "spark.readStream.option('startingVersion', '0').table('t')", ["new-checkpoint"]),
        ("src", "spark.readStream.option('startingVersion', '7').table('t')", []),
        ("src", "spark.readStream.option('maxFilesPerTrigger', 1).table('t')", ["new-checkpoint"]),
        ("streaming_df", "streaming_df", ["new-checkpoint"]),
        ("src.join(spark.table('a'), 'id')", "src.join(spark.table('b'), 'id')", []),
    ],
)
def test_new_checkpoint_is_reported_if_it_repeats_the_same_rows(found, first, second, rules):
    text = SOURCE + table(first, "u", '"/c"') + table(second, "u", '"/d"')

    assert [rule for rule, _ in found(text)] == rules


def test_rows_differ_if_a_variable_is_reassigned_between_the_queries(found):
    text = f"""
kind = load()
{table("src.filter(kind)", "u", '"/c"')}
kind = load()
{table("src.filter(kind)", "u", '"/d"')}
"""

    assert found(SOURCE + text) == []


def test_checkpoints_differ_if_a_variable_is_reassigned_between_the_queries(found):
    place = 'place = f"{base}/{name()}"\n'

    assert found(SOURCE + place + table("src", "u", "place") + place + table("src", "v", "place")) == []


def test_fix_gives_each_stream_without_a_checkpoint_its_own(replacements):
    text = """
        a.writeStream.format("delta").start("/bronze/orders")
        a.writeStream.format("delta").start("/silver/orders")
        a.writeStream.format("delta").start("s3://lake/silver/orders")
        a.writeStream.toTable("silver.orders")
        a.writeStream.foreachBatch(lambda batch, number: None).start()
        a.writeStream.foreachBatch(lambda batch, number: None).start()
        a.writeStream.option("checkpointLocation", "/checkpoints/gold").toTable("x")
        a.writeStream.toTable("gold")
        for name in names:
            a.writeStream.format("delta").start(f"/tables/{name}")
        """

    paths = [
        instead.removeprefix('.option("checkpointLocation", ') for instead in replacements(text, "missing-checkpoint")
    ]

    assert paths == [
        '"/checkpoints/bronze/orders")',
        '"/checkpoints/silver/orders")',
        '"/checkpoints/lake/silver/orders")',
        '"/checkpoints/silver/orders_2")',
        '"/checkpoints/a_name_of_its_own")',
        '"/checkpoints/a_name_of_its_own_2")',
        '"/checkpoints/gold_2")',
        '"/checkpoints/" + f"/tables/{name}")',
    ]


def test_fix_gives_each_stream_on_a_shared_checkpoint_its_own(replacements):
    text = SOURCE + "".join(table("src", name, '"/c"') for name in ("a.x", "b.x", "c.x"))

    instead = replacements(text, "shared-checkpoint")

    assert instead == ['.option("checkpointLocation", "/c_x")', '.option("checkpointLocation", "/c_x_2")']


WRITE = 'spark.readStream.table("{source}").writeStream.option("checkpointLocation", {checkpoint}).toTable({target})'


def stream(target, checkpoint='"/c"', source="a"):
    return WRITE.format(source=source, checkpoint=checkpoint, target=target)


T, U, OWN = stream('"t"'), stream('"u"'), stream("name", 'f"/c/{name}"')


@pytest.mark.parametrize(
    "text",
    [
        f"for name in names:\n    {stream('name')}",
        f"for name in names:\n    place = f'silver.{{name}}'\n    {stream('place')}",
        f"def start(name):\n    {stream('name')}\nstart('a')\nstart('b')",
        f"def start(name, place):\n    {stream('name', 'place')}\nstart('a', '/c')\nstart('b', '/c')",
        f"def start(name):\n    {stream('name')}\nfor name in names:\n    start(name)",
        f"def one():\n    {T}\ndef two():\n    {U}\none(); two()",
        f"def one():\n    {T}\ndef two():\n    {U}\ndef main():\n    one()\n    two()\nif __name__ == '':\n    main()",
    ],
)
def test_shared_checkpoint_is_reported_for_several_targets_in_loops_and_functions(found, text):
    assert [rule for rule, _ in found(text)] == ["shared-checkpoint"]


@pytest.mark.parametrize(
    "text",
    [
        f"for name in names:\n    {OWN}",
        f"for name in names:\n    {T}",
        f"for name in names:\n    if name == wanted:\n        {stream('name')}",
        f"def start(name):\n    {stream('name')}\nstart('a')",
        f"def start(name):\n    {stream('name')}\nstart('a')\nstart('a')",
        f"def start(name):\n    {stream('name')}\nif small:\n    start('a')\nelse:\n    start('b')",
        f"def start(name, place):\n    {stream('name', 'place')}\nstart('a', '/c')\nstart('b', '/d')",
        f"def one():\n    {T}\ndef two():\n    {U}\none()\nif other:\n    two()",
        f"def one():\n    {T}\ndef two():\n    {U}",
        f"def one():\n    {T}\ndef two():\n    {T}\none(); two()",
    ],
)
def test_shared_checkpoint_is_not_reported_if_a_run_may_start_only_one_target(found, text):
    assert found(text) == []


def test_fix_gives_each_stream_of_a_loop_its_own_checkpoint(replacements):
    text = f"for name in names:\n    {stream('name')}"

    assert replacements(text, "shared-checkpoint") == ['.option("checkpointLocation", "/c/" + name)']

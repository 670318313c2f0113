"""Projects of 10 to 1,000 flows: what `validate`, `plan` and an update without new data cost for each flow.

Every tenth table reads JSON files; the nine after it read that table. Each measure but the first update is divided by
the number of flows, so that its ratio to 100 flows is 1 if the cost is proportional.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from data import SCHEMA, write_events
from scenario import Contestant, Scenario, Step, program, rows_of_each

FLOWS = (10, 100, 300, 1_000)
_REPEATS = 3
_GROUP = 10
_HEAD = """\
from headrace import pipelines as dp

"""
_BRONZE = """
@dp.table
def t{number}():
    return spark.readStream.schema({schema!r}).json({data!r})

"""
_SILVER = """
@dp.table
def t{number}():
    return spark.readStream.table("t{bronze}").selectExpr("id", "device", "kind", "amount + 1 AS amount", "note")

"""


def _pipeline(flows: int, data: Path) -> Iterator[str]:
    yield _HEAD
    for number in range(flows):
        bronze = number - number % _GROUP
        template = _BRONZE if number == bronze else _SILVER
        yield template.format(number=number, bronze=bronze, schema=SCHEMA, data=str(data))


def _prepare(work: Path, data: Path, flows: int) -> None:
    (work / "transformations").mkdir()
    (work / "pipeline.yml").write_text("name: growth\n", encoding="utf-8")
    text = "".join(_pipeline(flows, data))
    (work / "transformations" / "tables.py").write_text(text, encoding="utf-8")


def _steps(_work: Path, _data: Path, flows: int) -> Sequence[Step]:
    first = Step("first update, cold", (program("headrace"), "run", "--quiet"))
    return (first, Step("", (sys.executable, __file__, str(flows)), cold=False))


def _contestant(flows: int) -> Contestant:
    return Contestant(
        f"{flows:,} flows",
        partial(_prepare, flows=flows),
        partial(_steps, flows=flows),
        lambda work: rows_of_each(work / "storage" / "tables" / "default" / f"t{number}" for number in range(flows)),
    )


SCENARIO = Scenario(
    about="validate, plan, and an update without new data; each divided by the number of flows",
    rows=1000,
    make_data=write_events,
    # Each table has all rows.
    expected_rows=lambda rows: rows,
    contestants=tuple(map(_contestant, FLOWS)),
    base="100 flows",
)


def measure(flows: int) -> None:
    """Print what each command costs a flow, in a warm session; the first run, which warms Java, does not count."""
    from headrace import Project  # noqa: PLC0415 - only the measured process needs it

    project = Project.open()
    commands: dict[str, Callable[[], object]] = {
        "validate": project.validate,
        "plan": project.plan,
        "update, nothing new": project.run,
    }
    with _counted_calls() as calls:
        for name, command in commands.items():
            command()
            for _ in range(_REPEATS):
                before, began, used = len(calls), time.perf_counter(), time.process_time()
                command()
                print(f"measured {1000 * (time.perf_counter() - began) / flows} ms a flow: {name}")
                print(f"measured {1000 * (time.process_time() - used) / flows} ms of Python a flow: {name}")
                print(f"measured {(len(calls) - before) / flows} calls to Java a flow: {name}")


@contextmanager
def _counted_calls() -> Iterator[list[None]]:
    from py4j.clientserver import JavaClient  # noqa: PLC0415 - only the measured process needs it

    calls: list[None] = []
    send = JavaClient.send_command

    def counted(client: JavaClient, *words: object, **options: object) -> object:
        calls.append(None)
        return send(client, *words, **options)

    JavaClient.send_command = counted
    try:
        yield calls
    finally:
        JavaClient.send_command = send


if __name__ == "__main__":
    measure(int(sys.argv[1]))

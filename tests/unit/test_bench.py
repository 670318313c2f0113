"""The arithmetic of the benchmark's report, and that every scenario can be found by the runner."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def own_modules(monkeypatch):
    """The benchmark's modules and no others of their names, which the example has too."""
    names = {file.stem for file in BENCH.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    monkeypatch.syspath_prepend(BENCH)
    yield
    for name in names & sys.modules.keys():
        del sys.modules[name]
    sys.modules.update(others)


@pytest.fixture
def report():
    return import_module("report")


@pytest.fixture
def samples(report):
    seconds = {"peer": [6.0, 8.0, 7.0], "headrace": [2.0, 5.0, 4.0]}
    return [report.Sample("cold", name, second) for name, runs in seconds.items() for second in runs]


def test_a_line_has_median_spread_and_ratio_if_the_base_was_measured(report, samples):
    peer, ours = report.lines_of(samples)

    assert (peer.median, peer.spread, peer.ratio) == (7.0, pytest.approx(2 / 7), 1.75)
    assert (ours.median, ours.spread, ours.ratio) == (4.0, pytest.approx(0.75), 1.0)


def test_ratios_are_computed_within_each_measure(report, samples):
    warm = [report.Sample("warm", "headrace", 0.5), report.Sample("warm", "peer", 1.5)]

    lines = report.lines_of([*samples, *warm])

    assert [(line.measure, line.ratio) for line in lines] == [
        ("cold", 1.75),
        ("cold", 1.0),
        ("warm", 1.0),
        ("warm", 3.0),
    ]


def test_a_line_has_no_ratio_if_the_base_was_not_measured(report, samples):
    lines = report.lines_of(samples, base="nobody")

    assert [line.ratio for line in lines] == [None, None]
    assert lines[0].to_json()["ratio"] is None


def test_a_round_of_several_competitors_starts_and_ends_with_the_first(report):
    assert report.round_of(("a", "headrace", "b")) == ("a", "headrace", "b", "a")
    assert report.round_of(("headrace",)) == ("headrace",)


def test_the_table_shows_which_contestants_are_missing_and_why(report, samples):
    shown = report.table(report.lines_of(samples), {"other": "not installed: grpc"})

    assert shown.splitlines() == [
        "measure  contestant  median s             spread  ratio  runs",
        "cold     peer        7.00                 29%     1.75   3",
        "cold     headrace    4.00                 75%     1.00   3",
        "         other       not installed: grpc",
    ]


def test_generated_events_are_the_same_every_time(tmp_path):
    write_events = import_module("data").write_events

    write_events(tmp_path / "one", 1000)
    write_events(tmp_path / "two", 1000)

    made = [[file.read_text() for file in sorted((tmp_path / name).glob("*.json"))] for name in ("one", "two")]
    assert made[0] == made[1]
    assert sum(text.count("\n") for text in made[0]) == 1000


RESULT = {
    "about": "work",
    "rows": 2000,
    "repeats": 1,
    "base": "headrace",
    "at": "2026-01-01T00:00:00",
    "machine": {"cores": 2, "load_before": 0.1},
    "lines": [
        {"measure": "cold", "contestant": "peer", "median_s": 4.0, "spread": 0.5, "ratio": 2.0, "runs_s": [3.0, 5.0]},
        {"measure": "cold", "contestant": "headrace", "median_s": 2.0, "spread": 0.0, "ratio": 1.0, "runs_s": [2.0]},
    ],
}


def test_the_page_keeps_results_that_were_not_measured_again():
    page = import_module("page").page
    before = page({"deep": RESULT, "rules": {**RESULT, "rows": 7}})

    after = page({"deep": {**RESULT, "rows": 9}}, before)

    assert after == page({"deep": {**RESULT, "rows": 9}, "rules": {**RESULT, "rows": 7}})


def test_a_published_result_shows_its_machine_and_the_command_to_measure_it_again():
    text = import_module("page").page({"deep": RESULT})

    assert '    make bench ARGS="--only deep --repeats 1"' in text
    assert "| cold | peer | 4.0 | 50% | 2.0 | 3.0, 5.0 |" in text
    assert "2026-01-01; cores 2, load before 0.1." in text


def test_rows_are_counted_after_every_step(monkeypatch, tmp_path):
    run, scenario = import_module("run"), import_module("scenario")
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    writing = (sys.executable, "-c", "open('rows', 'a').write('x')")
    steps = (scenario.Step("first", writing), scenario.Step("again", writing))
    twice = scenario.Contestant(
        "twice", lambda *_: None, lambda *_: steps, lambda work: len((work / "rows").read_text())
    )
    work = scenario.Scenario("work", 1, lambda *_: None, lambda rows: rows, (twice,), base="twice")

    with pytest.raises(run.BenchError, match="twice has 2 rows after again, not 1"):
        run.run_scenario("twice", work, rows=1, repeats=1)

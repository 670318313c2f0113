"""A continuous update that runs for hours: its resource use must not grow."""

from __future__ import annotations

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

from campaign.arena import CampaignError
from headrace.connectors.java import is_spark

# The length of a run that is long enough to evaluate every measure.
WHOLE_MINUTES = 120.0
# The highest ratio of the last quarter's median to the second quarter's that counts as flat.
ALLOWED = 1.10
# Counts are small numbers: an increase up to this is flat, too.
_FEW = 5.0
_SAMPLES, _SHORTEST_S = 240, 10.0
_TIMEOUT_S = 300.0
_ROWS, _KEPT_FILES = 200, 50
_TOTAL = re.compile(r"^Total +\d+ +(\d+)", re.MULTILINE)
SETTINGS = """\
name: soak
configuration:
  pipelines.trigger.interval: {every_s:g} seconds
"""
# A plain table, one with expectations, and a stateful one.
TABLES = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def landed():
    return (
        spark.readStream.format("cloudFiles")
        .option("cloudFiles.format", "json")
        .schema("id BIGINT, at TIMESTAMP, amount DOUBLE")
        .load("{landing}")
    )


@dp.table
@dp.expect("known", "id IS NOT NULL")
@dp.expect_or_quarantine("positive", "amount >= 0")
def checked():
    return spark.readStream.table("landed")


@dp.table
def by_minute():
    late = spark.readStream.table("landed").withWatermark("at", "10 seconds")
    return late.groupBy(F.window("at", "10 seconds"), (F.col("id") % 20).alias("key")).agg(F.sum("amount").alias("sum"))
"""


@dataclass(frozen=True)
class Sample:
    """Resource use of the two processes at one time; memory in MB, the heap after a forced collection."""

    minute: float
    heap_mb: float
    java_mb: float
    java_threads: int
    java_files: int
    python_mb: float
    python_threads: int
    python_files: int
    log_files: int
    cpu_s: float
    batches: int


def measures(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """The median of each measure in the second and in the last quarter of the run."""
    quarter = max(len(samples) // 4, 1)
    second, last = samples[quarter : 2 * quarter + 1], samples[-quarter - 1 :]
    found = {
        field.name: (_median(second, field.name), _median(last, field.name))
        for field in fields(Sample)
        if field.name not in ("minute", "cpu_s", "batches", "log_files")
    }
    return {**found, "cpu_s_per_batch": (_cost(second), _cost(last))}


def growing_measures(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """The measures that are not flat."""
    return {
        name: (before, after)
        for name, (before, after) in measures(samples).items()
        if after > before * ALLOWED and not (name.endswith(("threads", "files")) and after - before <= _FEW)
    }


def soak(folder: Path, minutes: float, environ: Mapping[str, str], feed_every_s: float) -> Iterator[Sample]:
    """Run the update in *folder*, which is replaced, and yield samples of it.

    Args:
        folder: the folder of the project and its storage.
        minutes: the duration of the run.
        environ: the environment of the update's process.
        feed_every_s: seconds between new files, and the trigger interval of the flows.

    Raises:
        CampaignError: the update did not start, or ended early.
    """
    landing = _project(folder, feed_every_s)
    with (folder / "soak.log").open("wb") as log:
        call = [sys.executable, "-m", "headrace", "run", "--continuous"]
        update = subprocess.Popen(call, cwd=folder, env=dict(environ), stdout=log, stderr=log, start_new_session=True)
    try:
        java = _java_of(update, folder)
        began, fed, sampled = time.monotonic(), 0, 0
        every_s = max(minutes * 60 / _SAMPLES, _SHORTEST_S)
        while (passed_s := time.monotonic() - began) < minutes * 60:
            if update.poll() is not None:
                raise CampaignError(f"the update has ended with {update.returncode}, see {folder}/soak.log")
            if passed_s >= fed * feed_every_s:
                fed += 1
                _feed(landing, fed)
            if passed_s >= sampled * every_s:
                sampled += 1
                yield _sample(folder, psutil.Process(update.pid), java, passed_s / 60)
            time.sleep(min(feed_every_s, 1.0))
    finally:
        update.send_signal(signal.SIGTERM)
        try:
            update.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            update.kill()


def page(samples: Sequence[Sample], feed_every_s: float, cores: int) -> str:
    """The results as a page of Markdown."""
    rows = ["| measure | second quarter | last quarter | ratio | |", "| --- | --- | --- | --- | --- |"]
    growing = growing_measures(samples)
    for name, (before, after) in measures(samples).items():
        trend = "grows" if name in growing else "flat"
        rows.append(f"| {_words(name)} | {before:.4g} | {after:.4g} | {after / max(before, 1e-9):.2f} | {trend} |")
    names = [field.name for field in fields(Sample)]
    curve = [f"| {' | '.join(map(_words, names))} |", f"|{' --- |' * len(names)}"]
    shown = samples[:: max(len(samples) // 20, 1)]
    curve += [f"| {' | '.join(f'{getattr(sample, name):.6g}' for name in names)} |" for sample in shown]
    minutes = samples[-1].minute
    # The last sample precedes the end of the run.
    caveat = "" if minutes > WHOLE_MINUTES - 1 else _SHORT.format(whole=WHOLE_MINUTES)
    head = _HEAD.format(minutes=f"{minutes:.0f}", every_s=f"{feed_every_s:g}", cores=cores, caveat=caveat)
    return "\n".join((head, *rows, "", _CURVE, *curve, ""))


def stored(sample: Sample) -> str:
    """A sample as a line of JSON."""
    return json.dumps(asdict(sample)) + "\n"


def read_samples(file: Path) -> list[Sample]:
    """The samples in a file, one per line."""
    return [Sample(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


_HEAD = """\
# A long run

This page shows whether a continuous update grows while it runs for hours: its memory, threads, open files, and CPU time per
batch. To repeat the run and rewrite this page (defaults: 120 minutes, 1 second):

    make campaign ARGS="--only soak --minutes N --feed-every S --publish"

One continuous update has three flows: files into a table, a table with expectations and quarantine, and an aggregation with
a watermark. A file of 200 rows comes every {every_s} s, and the flows have the same trigger interval. *Heap* is what a forced
garbage collection leaves. *Java mb* and *python mb* are the memory that the operating system counts for the process. A
measure is flat if its median in the last quarter of the run is at most 10 % above that of the second quarter. For threads
and files, an increase of up to 5 is flat too.

Thread pools are bounded. Spark has two pools of up to 100 threads for its blocks; these threads end after a minute without
work. delta-rs, which reads and writes tables in the Python process, starts one thread for each commit after the last
checkpoint of a table that it opens. It ends these threads after 10 seconds without work. A running update opens the event
log every 25 appends, which is also how often the log gets a checkpoint. It opens each table every 256 batches, to count the
small files. Tables get a checkpoint every 100 commits.

This run took **{minutes} minutes** on a machine of {cores} cores, which other work shared.{caveat}
"""
_SHORT = """ A whole run takes {whole:g}.
Between checkpoints and between compactions of the tables, heap and CPU time rise a little: in a shorter run the two
quarters may be at different places of that rise.\
"""
_CURVE = """\
Samples over time:
"""


def _words(name: str) -> str:
    return name.replace("_", " ")


def _median(samples: Sequence[Sample], name: str) -> float:
    return float(statistics.median(getattr(sample, name) for sample in samples))


def _cost(samples: Sequence[Sample]) -> float:
    batches = samples[-1].batches - samples[0].batches
    return (samples[-1].cpu_s - samples[0].cpu_s) / max(batches, 1)


def _project(folder: Path, every_s: float) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    landing = folder / "landing"
    landing.mkdir(parents=True)
    (folder / "transformations").mkdir()
    (folder / "pipeline.yml").write_text(SETTINGS.format(every_s=every_s), encoding="utf-8")
    text = TABLES.replace("{landing}", str(landing))
    (folder / "transformations" / "tables.py").write_text(text, encoding="utf-8")
    _feed(landing, 0)
    return landing


def _feed(landing: Path, number: int) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    rows = ({"id": number * _ROWS + row, "at": moment, "amount": row - 2.0} for row in range(_ROWS))
    draft = landing / f".{number}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    draft.rename(landing / f"{number:08}.json")
    (landing / f"{number - _KEPT_FILES:08}.json").unlink(missing_ok=True)


def _java_of(update: subprocess.Popen[bytes], folder: Path) -> psutil.Process:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline and update.poll() is None:
        for child in psutil.Process(update.pid).children(recursive=True):
            if child.is_running() and is_spark(_command_of(child)) and _batches(folder):
                return child
        time.sleep(0.5)
    raise CampaignError(f"the update did not start, see {folder}/soak.log")


def _command_of(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ()


def _sample(folder: Path, python: psutil.Process, java: psutil.Process, minute: float) -> Sample:
    # Forces a collection first, so that only live objects count.
    output = _run_jcmd(java, "GC.class_histogram")
    total = _TOTAL.search(output)
    if total is None:
        raise CampaignError(f"jcmd does not tell of the heap: {output[-500:]}")
    times = [process.cpu_times() for process in (python, java)]
    return Sample(
        minute=round(minute, 2),
        heap_mb=round(int(total[1]) / 2**20, 1),
        java_mb=round(java.memory_info().rss / 2**20, 1),
        java_threads=java.num_threads(),
        java_files=java.num_fds(),
        python_mb=round(python.memory_info().rss / 2**20, 1),
        python_threads=python.num_threads(),
        python_files=python.num_fds(),
        log_files=sum(1 for _ in (folder / "storage" / "system" / "events").glob("*.parquet")),
        cpu_s=round(sum(spent.user + spent.system for spent in times), 2),
        batches=_batches(folder),
    )


def _run_jcmd(java: psutil.Process, command: str) -> str:
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        raise CampaignError("the soak needs jcmd, which comes with a JDK")
    done = subprocess.run([jcmd, str(java.pid), command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _batches(folder: Path) -> int:
    """The number of batches that all flows have committed."""
    commits = (folder / "storage" / "checkpoints").glob("*/*/*/*/commits")
    newest = (
        max((int(file.name) for file in commits_log.iterdir() if file.name.isdigit()), default=-1)
        for commits_log in commits
    )
    return sum(batch + 1 for batch in newest)

"""Fixtures of the repository, on top of those that the package's own pytest plugin brings."""

from __future__ import annotations

import os
import shutil
import textwrap
import uuid
from collections import Counter, defaultdict
from itertools import zip_longest
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings
from tests.tiers import EVERYTHING

from headrace.testing.java import BOTH_COMPILERS, FEW_TABLES, FIRST_COMPILER

# For every short-lived Java that a test starts, too.
os.environ.setdefault("JDK_JAVA_OPTIONS", FIRST_COMPILER)
# Storage of tests lies in memory where there is a file system of it: a disk that is asked to keep each commit costs a
# fifth of the suite's time.
MEMORY = Path("/dev/shm")
# Containers often have one of 64 MB, which is not enough.
MEMORY_NEEDED_BYTES = 4 << 30
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# How long an example takes is this machine's affair.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

HEAD = "from headrace import pipelines as dp\nfrom pyspark.sql import functions as F\n\n"


def as_files(text, files=()):
    """One Python file, whose text may be indented, and what stands beside it."""
    own = {"transformations/project.py": HEAD + textwrap.dedent(text)} if text else {}
    return {**own, **{path: textwrap.dedent(content) for path, content in dict(files).items()}}


@pytest.fixture
def project(make_project):
    """A pipeline of one Python file, in which ``dp`` and ``F`` are there, and of other files."""

    def make(text="", files=(), **settings):
        return make_project(as_files(text, files), settings)

    return make


@pytest.fixture(scope="module")
def shared_project(headrace_session, tmp_path_factory):
    """The same, for pipelines that several tests of a module look at."""
    from headrace.testing.driver import Pipeline, write_project  # noqa: PLC0415 - with Spark, for tests that need it
    from headrace.testing.warm import unchanged  # noqa: PLC0415 - the same

    base = tmp_path_factory.mktemp("shared")

    def make(text="", files=(), **settings):
        folder = base / f"project{sum(1 for _ in base.iterdir())}"
        write_project(folder, as_files(text, files), settings)
        return Pipeline(folder, folder / "storage", os.environ)

    with unchanged(headrace_session, base):
        yield make


@pytest.fixture(scope="module")
def prepared(shared_project, tmp_path_factory):
    """Runs a function that sets up a pipeline, and keeps a copy that each test of the module can restore."""
    from tests.restored_pipelines import Prepared  # noqa: PLC0415 - with Spark, for tests that need it

    return lambda set_up: Prepared(set_up(shared_project), tmp_path_factory.mktemp("prepared") / "kept")


@pytest.fixture(scope="session")
def aws():
    """A server that answers as Amazon's do, and the environment that leads there."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - for the tests that need it

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_REGION", "eu-west-1")
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        yield server
    server.stop()


@pytest.fixture
def bucket(aws):
    """A bucket of its own for each test, as boto3 has it."""
    import boto3  # noqa: PLC0415 - for the tests that need it

    made = boto3.resource("s3").create_bucket(
        Bucket=f"landing-{uuid.uuid4().hex[:12]}", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    assert aws
    return made


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A server of S3 in a process of its own, one for each process that runs tests of it."""
    from tests.servers.s3 import running_s3  # noqa: PLC0415 - for the tests that need it

    folder = tmp_path_factory.mktemp("s3") / "buckets"
    folder.mkdir()
    with running_s3(folder) as server:
        yield server


@pytest.fixture
def lake(s3, monkeypatch):
    """The URI of a bucket of its own for each test; the environment leads there."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    from headrace.stores.connection import StoreConnection  # noqa: PLC0415 - for the tests that need it
    from headrace.stores.connections import add_connection  # noqa: PLC0415 - the same

    root = f"s3a://{s3.make_bucket(f'lake-{uuid.uuid4().hex[:12]}')}"
    add_connection(root, lambda: StoreConnection.of_environment(s3.environ))
    return root


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """The root of a real HDFS, one for each process that runs tests of it."""
    from tests.servers.hdfs import running_hdfs  # noqa: PLC0415 - the same

    from headrace.stores.connection import StoreConnection  # noqa: PLC0415 - for the tests that need it
    from headrace.stores.connections import add_connection  # noqa: PLC0415 - the same

    with running_hdfs(tmp_path_factory.mktemp("hdfs") / "cluster") as root:
        add_connection(root, StoreConnection)
        yield root


@pytest.fixture(scope="session")
def azure(tmp_path_factory):
    """A server of Azure's blobs, one for each process that runs tests of it."""
    from tests.servers.azure import AZURITE, running_azure  # noqa: PLC0415 - for the tests that need it

    if not AZURITE.exists():
        pytest.skip("`make test-servers` installs Azurite")
    with running_azure(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture(scope="session")
def google(tmp_path_factory):
    """A server of Google Cloud Storage, one for each process that runs tests of it."""
    from tests.servers.google import SERVER, running_google  # noqa: PLC0415 - for the tests that need it

    if not SERVER.exists():
        pytest.skip("`make test-servers` installs the fake server of Google Cloud Storage")
    with running_google(tmp_path_factory.mktemp("google")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A real broker, one in each process that runs tests of it."""
    from tests.servers.kafka import KafkaBroker  # noqa: PLC0415 - its client, for tests that need it

    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL, one in each process that runs tests of it."""
    from tests.servers.postgres import running_postgres  # noqa: PLC0415 - its packages, for tests that need it

    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def kinesis():
    """Kinesis as moto serves it, one in each process that runs tests of it."""
    from tests.servers.kinesis import running_kinesis  # noqa: PLC0415 - its packages, for tests that need it

    with running_kinesis() as server:
        yield server


def pytest_configure(config):
    """Let Java compile what hundreds of updates run, and plan each query once where a change is tested.

    `make test-all` has the Spark settings that pipelines have.
    """
    config.addinivalue_line("headrace_confs", f"spark.driver.extraJavaOptions={BOTH_COMPILERS} {FEW_TABLES}")
    if not EVERYTHING:
        config.addinivalue_line("headrace_confs", "spark.sql.adaptive.enabled=false")


def pytest_collection_modifyitems(items):
    """Let files of tests that mostly wait for processes alternate with those that compute, so that no core is idle."""
    files = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    waiting = [tests for file, tests in files.items() if file.startswith("tests/e2e/")]
    computing = [tests for file, tests in files.items() if not file.startswith("tests/e2e/")]
    items[:] = [item for pair in zip_longest(waiting, computing, fillvalue=()) for tests in pair for item in tests]


def area(node_id):
    """What a test is about: its folder; in the large folder of Spark's tests, also the first word of its file."""
    path = PurePosixPath(node_id.partition("::")[0])
    folder = path.parent.relative_to("tests").as_posix() if path.is_relative_to("tests") else path.parent.as_posix()
    return f"{folder}/{path.stem.removeprefix('test_').partition('_')[0]}" if folder == "spark" else folder


def pytest_terminal_summary(terminalreporter):
    """Print where the time went."""
    seconds, tests = Counter(), Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds[area(report.nodeid)] += report.duration
            tests[area(report.nodeid)] += report.when == "call"
    terminalreporter.section("seconds per area, in all workers")
    for name, taken in seconds.most_common():
        terminalreporter.write_line(f"{taken:8.1f}  {tests[name]:5d} tests  {name}")

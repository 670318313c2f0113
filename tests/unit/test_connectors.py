"""The lock of jars and the cache, with a shell script in Java's place that hands out files as Ivy does."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.connectors import fetch
from headrace.connectors.fetch import STORAGE_JAR, cache_folder, ensure_jars, jars, jars_report, storage_jar
from headrace.connectors.java import check_java
from headrace.connectors.lock import Jar, connectors, locked_jars
from headrace.errors import PipelineError

CONTENT = b"the bytes of a jar"
JAR = Jar("org.example", "tool", "1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


class Repository:
    """Environment variables under which "Java" copies what stands in ``shelf`` and counts how often it was asked."""

    def __init__(self, root: Path) -> None:
        self.shelf = root / "shelf"
        self.shelf.mkdir()
        self.asked = root / "asked"
        self.java(f'echo asked >> "{self.asked}"; cp "{self.shelf}"/* . 2>/dev/null; true')
        self.environ = {"JAVA_HOME": str(root / "java"), "PATH": "/usr/bin:/bin"}

    def java(self, script: str) -> None:
        """Replace the program that stands for Java."""
        program = self.shelf.parent / "java" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def offer(self, content: bytes) -> None:
        """Put the jar on the shelf with this content."""
        (self.shelf / JAR.file).write_bytes(content)

    @property
    def requests(self) -> int:
        """How often something was downloaded."""
        return len(self.asked.read_text().splitlines()) if self.asked.exists() else 0


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_delta_comes_first_when_other_connectors_are_requested() -> None:
    names = [jar.name for jar in locked_jars(["kafka"])]

    assert names[:2] == ["delta-spark_4.2_2.13", "delta-storage"]
    assert "kafka-clients" in names


def test_every_jar_is_listed_once_when_connectors_repeat() -> None:
    assert locked_jars(["kafka", "kafka", "delta"]) == locked_jars(["kafka"])


def test_known_connectors_are_listed_when_a_name_is_unknown() -> None:
    with pytest.raises(PipelineError) as caught:
        locked_jars(["kafak"])

    assert (caught.value.code, caught.value.params) == (
        "CONNECTOR.UNKNOWN",
        {"name": "kafak", "known": "delta, kafka, avro, hdfs, s3"},
    )


def test_no_two_locked_jars_share_a_file_name() -> None:
    locked = [jar for connector in connectors().values() for jar in connector.jars]

    assert len({jar.file for jar in locked}) == len(locked)
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in locked)


def test_a_jar_is_downloaded_once_when_it_is_requested_twice(repository: Repository, tmp_path: Path) -> None:
    repository.offer(CONTENT)

    for _ in range(2):
        (path,) = ensure_jars([JAR], tmp_path / "jars", environ=repository.environ)

    assert path.read_bytes() == CONTENT
    assert repository.requests == 1


def test_a_jar_is_downloaded_again_when_the_file_is_damaged(repository: Repository, tmp_path: Path) -> None:
    repository.offer(CONTENT)
    (path,) = ensure_jars([JAR], tmp_path / "jars", environ=repository.environ)
    path.write_bytes(CONTENT[:-1])

    ensure_jars([JAR], tmp_path / "jars", environ=repository.environ)

    assert path.read_bytes() == CONTENT


def test_a_wrong_checksum_causes_one_more_download_and_the_file_is_not_kept(
    repository: Repository, tmp_path: Path
) -> None:
    repository.offer(b"something else")

    with pytest.raises(PipelineError) as caught:
        ensure_jars([JAR], tmp_path / "jars", environ=repository.environ)

    assert (caught.value.code, repository.requests) == ("CONNECTOR.CHECKSUM", 2)
    assert not (tmp_path / "jars" / JAR.file).exists()


def test_the_error_contains_no_credentials_when_a_mirror_refuses_the_download(
    repository: Repository, tmp_path: Path
) -> None:
    repository.java('echo ":::: ERRORS"; echo "  refused url=http://ann:s3cret@mirror.example/x?key=s3cret"; exit 1')

    with pytest.raises(PipelineError) as caught:
        ensure_jars([JAR], tmp_path / "jars", environ=repository.environ)

    assert caught.value.params["reason"] == "refused"
    assert "s3cret" not in caught.value.render()


def test_two_concurrent_requests_share_one_download(repository: Repository, tmp_path: Path) -> None:
    repository.offer(CONTENT)

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ensure_jars, [JAR], tmp_path / "jars", environ=repository.environ) for _ in range(2)]
        paths = {path for future in asked for path in future.result()}

    assert [path.read_bytes() for path in paths] == [CONTENT]
    assert repository.requests == 1


def test_leftovers_of_a_killed_download_are_removed(repository: Repository, tmp_path: Path) -> None:
    repository.offer(CONTENT)
    (tmp_path / "jars" / ".fetch-killed").mkdir(parents=True)

    ensure_jars([JAR], tmp_path / "jars", environ=repository.environ)

    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == [".lock", JAR.file]


def test_the_error_names_a_folder_that_cannot_be_created(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(PipelineError) as caught:
        ensure_jars([JAR], tmp_path / "file" / "jars", environ=repository.environ)

    assert caught.value.code == "CONNECTOR.FETCH_FAILED"
    assert str(tmp_path / "file") in caught.value.detail


def test_every_jar_is_reported_missing_when_the_cache_is_empty(tmp_path: Path) -> None:
    report = jars_report(environ={}, cache=tmp_path)

    assert {row.to_json()["state"] for row in report} == {"missing"}
    assert [row.jar for row in report if row.connector == "delta"] == list(locked_jars([]))


def test_a_file_with_unexpected_content_is_reported_damaged(tmp_path: Path) -> None:
    (delta, *_) = locked_jars([])
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / delta.file).write_bytes(b"not a jar")

    (first, *_) = jars_report(environ={}, cache=tmp_path)

    assert first.state.value == "damaged"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HEADRACE_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/headrace"),
        ({"HOME": "/h"}, "/h/.cache/headrace"),
    ],
)
def test_the_most_specific_variable_sets_the_cache_folder(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


@pytest.mark.parametrize("printed", ["17.0.15", "21", "25-ea"])
def test_java_is_accepted_when_it_is_new_enough(repository: Repository, printed: str) -> None:
    repository.java(f"echo 'openjdk version \"{printed}\" 2025-04-15' >&2")

    check_java(repository.environ)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8"),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"),
        ("echo 'No Java runtime present' >&2", "does not print a version"),
    ],
)
def test_java_is_refused_with_the_reason_when_it_cannot_run_spark(
    repository: Repository, script: str, reason: str
) -> None:
    repository.java(script)

    with pytest.raises(PipelineError) as caught:
        check_java(repository.environ)

    assert reason in caught.value.detail


@pytest.mark.parametrize(
    ("environ", "reason"),
    [({"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}, "JAVA_HOME"), ({"PATH": ""}, "no java is on PATH")],
)
def test_missing_java_is_reported_with_the_reason(environ: dict[str, str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        jars(environ=environ, cache=tmp_path)

    assert (caught.value.code, reason in caught.value.detail) == ("CONNECTOR.JAVA", True)


def test_the_packaged_jar_replaces_a_damaged_copy(tmp_path: Path) -> None:
    copy = storage_jar(environ={}, cache=tmp_path)
    copy.write_bytes(b"damaged")

    assert storage_jar(environ={}, cache=tmp_path).read_bytes() == STORAGE_JAR.read_bytes()


def test_the_error_names_a_missing_or_damaged_packaged_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for damaged in (tmp_path / "missing.jar", tmp_path / "other.jar"):
        monkeypatch.setattr(fetch, "STORAGE_JAR", damaged)
        (tmp_path / "other.jar").write_bytes(b"damaged")

        with pytest.raises(PipelineError) as caught:
            storage_jar(environ={}, cache=tmp_path / "cache")

        assert (caught.value.code, caught.value.params["file"]) == ("CONNECTOR.DAMAGED_PACKAGE", str(damaged))

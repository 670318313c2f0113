"""How the JVM is given its settings, and what becomes of what it prints."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from headrace.errors import PipelineError
from headrace.settings.secrets import Secrets
from headrace.spark.jvm.launch import arguments_text, properties_text, settings_in_file
from headrace.spark.jvm.spark_log import LogWriter, log_pipe, redact_log

OPTIONS = "spark.driver.extraJavaOptions"


def given(words: list[str]) -> Path:
    """The file of settings that the arguments of ``spark-submit`` name."""
    return Path(words[words.index("--properties-file") + 1])


def test_settings_are_in_files_only_this_user_can_read_while_the_jvm_starts(monkeypatch) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    secret = 'pa ss"wörd\n\\'

    with settings_in_file({"my.token": secret, OPTIONS: f"-Dkey={shlex.quote(secret)} -XX:+UseSerialGC"}, None):
        words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        folder = given(words).parent
        modes = {oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}
        settings = given(words).read_text()
        options = (folder / "java-options").read_text()

    assert words[2:] == ["--load-spark-defaults", "pyspark-shell"]
    assert "BASH_ENV" not in os.environ
    assert (modes, oct(folder.stat().st_mode & 0o777) if folder.exists() else "gone") == ({"0o600"}, "gone")
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ
    assert "my\\u002etoken=pa\\u0020ss\\u0022w\\u00f6rd\\u000a\\u005c\n" in settings
    assert options == '"-Dkey=pa ss\\"wörd\\n\\\\"\n"-XX:+UseSerialGC"\n'
    assert "Dkey" not in settings
    assert "java\\u002doptions" in settings


def test_user_arguments_are_kept_and_the_properties_file_of_the_user_comes_first(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine.conf").write_text("spark.app.name=theirs\n")
    before = "--properties-file mine.conf --packages org.mine:mine:1.0 pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", before)

    with settings_in_file({"spark.app.name": "ours"}, tmp_path):
        words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        lines = given(words).read_text().split()

    assert words[2:] == ["--packages", "org.mine:mine:1.0", "pyspark-shell"]
    assert lines[:2] == ["spark.app.name=theirs", "spark\\u002eapp\\u002ename=ours"]
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == before


def test_java_options_with_an_unclosed_quote_are_refused() -> None:
    with pytest.raises(PipelineError) as raised, settings_in_file({OPTIONS: "-Dkey='open"}, None):
        pytest.fail("there is nothing to start with")

    assert (raised.value.code, raised.value.params["key"]) == ("SETTINGS.JAVA_OPTIONS", OPTIONS)


def test_properties_and_arguments_are_escaped_for_java() -> None:
    assert properties_text({"a": " x=\U0001f600"}) == "a=\\u0020x\\u003d\\ud83d\\ude00\n"
    assert arguments_text("-Da='b c'  -Dd=e") == '"-Da=b c"\n"-Dd=e"\n'


def test_secrets_are_redacted_in_the_spark_log(tmp_path) -> None:
    secrets = Secrets({"HEADRACE_SECRET_API_PEM": "-----BEGIN KEY-----\nfirstline\nlastline\n-----END KEY-----"})
    secrets.get("api", "pem")
    redact_log(secrets.redact)
    file = tmp_path / "spark.log"

    with log_pipe(file) as descriptor:
        os.write(descriptor, b"ERROR: with a key\nfirstline\nlastline\xff\n")
    deadline = time.monotonic() + 10
    while not (file.exists() and file.read_bytes().endswith(b"\xff\n")) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert file.read_bytes() == b"ERROR: with a key\n[REDACTED]\n[REDACTED]\xff\n"


def test_a_large_log_is_rotated_and_the_newest_logs_are_kept(tmp_path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"line %d\n" % number for number in range(12)))

    LogWriter(tmp_path / "spark.log", lines.open("rb"), largest_bytes=14).copy()

    kept = {file.name: file.read_text().split()[1::2] for file in tmp_path.glob("spark.log*")}
    assert kept == {
        "spark.log": ["10", "11"],
        "spark.log.1": ["8", "9"],
        "spark.log.2": ["6", "7"],
        "spark.log.3": ["4", "5"],
    }

"""Download jars with the Ivy that Spark ships, so that mirrors and credentials in the user's Ivy settings apply."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headrace.connectors.java import java_command
from headrace.connectors.lock import Jar

SETTINGS_VARIABLE = "HEADRACE_IVY_SETTINGS"
TIMEOUT_S = 600
_REASONS = 3
# URLs of mirrors may contain credentials, so messages omit them.
_ADDRESS = re.compile(r"\s*(?:url=)?\w+://\S+")


def download(jars: Sequence[Jar], folder: Path, *, environ: Mapping[str, str]) -> str:
    """Download the available files of *jars* into *folder*, without verification.

    Ivy's own cache is in *folder* too, so it is never stale, damaged or shared with another process.

    Args:
        jars: the jars to download, without their dependencies.
        folder: an existing temporary folder.
        environ: the environment of the JVM; ``HEADRACE_IVY_SETTINGS`` in it names an Ivy settings file.

    Returns:
        Why a file is missing, from Ivy's output without URLs; empty if Ivy reported no problem.
    """
    spark_jars = find_spark_jars(environ)
    if spark_jars is None:
        return "Spark's jars, which include Ivy, were not found next to the pyspark package"
    request = folder / "ivy.xml"
    request.write_text(_request(jars), encoding="utf-8")
    command = [java_command(environ), "-cp", f"{spark_jars}/*", "org.apache.ivy.Main", "-ivy", request.name]
    # Relative to the folder: an absolute path may contain characters that Ivy's patterns interpret.
    command += ["-cache", "ivy", "-retrieve", "[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    if environ.get(SETTINGS_VARIABLE):
        command += ["-settings", str(Path(environ[SETTINGS_VARIABLE]).absolute())]
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT_S} seconds"
    return _reason(result.stdout) if result.returncode else ""


def find_spark_jars(environ: Mapping[str, str]) -> Path | None:
    """The folder of Spark's jars, found without importing pyspark; None without one."""
    spec = find_spec("pyspark")
    homes = [Path(location) for location in (spec.submodule_search_locations or ())] if spec else []
    if environ.get("SPARK_HOME"):
        homes.append(Path(environ["SPARK_HOME"]))
    return next((home / "jars" for home in homes if any((home / "jars").glob("ivy-*.jar"))), None)


def _request(jars: Sequence[Jar]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)}"
        ' transitive="false" conf="default->master"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="headrace" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _reason(output: str) -> str:
    _, _, errors = output.partition(":::: ERRORS")
    errors_seen = dict.fromkeys(_ADDRESS.sub("", line).strip() for line in errors.splitlines())
    reasons = [line for line in errors_seen if line and not line.startswith("::")]
    return "; ".join(reasons[:_REASONS]) or "no repository that Ivy searched has them"

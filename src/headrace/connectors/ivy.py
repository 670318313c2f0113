"""Downloads jars with the Ivy that Spark ships, so that mirrors and credentials in the user's Ivy settings apply."""

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
# Addresses of a mirror may hold credentials, so none is repeated.
_ADDRESS = re.compile(r"\s*(?:url=)?\w+://\S+")


def download(jars: Sequence[Jar], folder: Path, *, environ: Mapping[str, str]) -> str:
    """Put the files of *jars* into *folder* as far as they can be had; not verified.

    Ivy's own cache is made in *folder* too, so that nothing stale, damaged or shared with another process is used.

    Args:
        jars: what to download, without what they depend on.
        folder: an existing folder that is thrown away afterwards.
        environ: the environment of the JVM; ``HEADRACE_IVY_SETTINGS`` in it names an Ivy settings file.

    Returns:
        Why something is missing, in Ivy's words without addresses; empty when Ivy saw no problem.
    """
    spark_jars = find_spark_jars(environ)
    if spark_jars is None:
        return "the jars of Spark, which hold Ivy, were not found beside the pyspark package"
    request = folder / "ivy.xml"
    request.write_text(_request(jars), encoding="utf-8")
    command = [java_command(environ), "-cp", f"{spark_jars}/*", "org.apache.ivy.Main", "-ivy", request.name]
    # Relative to the folder: a path from outside might hold what Ivy's patterns give a meaning to.
    command += ["-cache", "ivy", "-retrieve", "[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    if environ.get(SETTINGS_VARIABLE):
        command += ["-settings", str(Path(environ[SETTINGS_VARIABLE]).absolute())]
    try:
        done = subprocess.run(
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
    return _reason(done.stdout) if done.returncode else ""


def find_spark_jars(environ: Mapping[str, str]) -> Path | None:
    """The folder of the jars that Spark ships, found without importing pyspark; None when there is none."""
    spec = find_spec("pyspark")
    homes = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
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
    said = dict.fromkeys(_ADDRESS.sub("", line).strip() for line in errors.splitlines())
    reasons = [line for line in said if line and not line.startswith("::")]
    return "; ".join(reasons[:_REASONS]) or "none of the repositories that Ivy asked has them"

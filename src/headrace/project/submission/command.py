"""The command of ``spark-submit`` that runs a verb on a cluster. Nothing secret is on it.

A driver on this machine reads the settings of the project, so that the command has only those which take effect before
it starts. For a driver in the cluster, it has all but those with a reference, such as ``${secret:scope/key}``, or with
the name of a secret.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError
from headrace.settings.memory import DEFAULT_DRIVER_MEMORY, DRIVER_MEMORY_KEY
from headrace.settings.settings import Settings
from headrace.spark.session.submitted_confs import START_KEYS

DEFAULT_MASTER = "local[*]"
# Where an image has the file that spark-submit runs.
DEFAULT_ENTRY = "/opt/headrace/main.py"
_IMAGES = ("spark.kubernetes.container.image", "spark.kubernetes.driver.container.image")
_MODE_KEY = "spark.submit.deployMode"
_REFERENCE = re.compile(r"\$\{")
# Spark's own rule, spark.redaction.regex.
_SECRET_NAME = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


class DeployMode(str, Enum):
    """Where the driver runs: here, or in the cluster."""

    CLIENT = "client"
    CLUSTER = "cluster"


class Manager(str, Enum):
    """The manager of a cluster."""

    STANDALONE = "Spark standalone"
    YARN = "YARN"
    KUBERNETES = "Kubernetes"
    LOCAL = "local-cluster"

    @classmethod
    def of(cls, master: str) -> Manager:
        """The manager of a master.

        Raises:
            PipelineError: SUBMIT.MASTER.
        """
        for pattern, manager in _MASTERS.items():
            if re.match(pattern, master):
                return manager
        raise PipelineError("SUBMIT.MASTER", master=master)


_MASTERS = {
    r"spark://": Manager.STANDALONE,
    r"yarn$": Manager.YARN,
    r"k8s://": Manager.KUBERNETES,
    r"local-cluster\[": Manager.LOCAL,
}
# Why the driver cannot run in a cluster.
_NO_CLUSTER_MODE = {
    Manager.STANDALONE: "Spark runs Python there in client mode only",
    Manager.YARN: "the container of the driver has no folder with the project, to which its relative paths belong",
    Manager.LOCAL: "its machines are processes of the driver",
}


@dataclass(frozen=True)
class SubmitRequest:
    """What to run, and what overrides the settings.

    Attributes:
        words: the verb of Headrace with its options, and the global options before it.
        master: None for that of the settings.
        mode: where the driver runs; None for ``spark.submit.deployMode`` of the settings, else client.
        confs: confs that override the settings.
        entry: with a driver in the cluster, the file in its image that runs Headrace.
    """

    words: tuple[str, ...] = ("run",)
    master: str | None = None
    mode: DeployMode | None = None
    confs: Mapping[str, str] | None = None
    entry: str = DEFAULT_ENTRY


@dataclass(frozen=True)
class Tools:
    """What this machine has.

    Attributes:
        spark_home: the folder of Spark, with ``bin/spark-submit``.
        python: the interpreter of the driver.
        entry: the file that runs Headrace.
        jars: the locked jars of some connectors; called only for a driver on this machine.
        master: that of the environment.
    """

    spark_home: Path
    python: str
    entry: Path
    jars: Callable[[Sequence[str]], Sequence[Path]]
    master: str | None = None


@dataclass(frozen=True)
class SubmitCommand:
    """A command of ``spark-submit``.

    Attributes:
        folder: where to run it.
        environment: variables besides those of this process.
        options: pairs of an option and its value.
        program: the file that it runs, and its words.
        mode: where the driver runs.
        left_out: the secret settings that a driver in the cluster must read itself.
    """

    folder: Path
    spark_home: Path
    options: tuple[tuple[str, str], ...]
    program: tuple[str, ...]
    mode: DeployMode
    left_out: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """Variables besides those of this process."""
        return {"SPARK_HOME": str(self.spark_home)}

    @property
    def words(self) -> tuple[str, ...]:
        """The command as words."""
        given = (word for option in self.options for word in option)
        return (str(self.spark_home / "bin" / "spark-submit"), *given, *self.program)

    def describe(self) -> str:
        """Lines for a shell."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        lines = [
            " ".join((*variables, shlex.quote(self.words[0]))),
            *(shlex.join(option) for option in self.options),
            shlex.join(self.program),
        ]
        notes = [f"# from the settings, by the driver: {key}" for key in self.left_out]
        return "\n".join((f"cd {shlex.quote(str(self.folder))}", *notes, " \\\n  ".join(lines)))

    def to_json(self) -> dict[str, Any]:
        """The command as one JSON object."""
        return {
            "folder": str(self.folder),
            "environment": self.environment,
            "command": list(self.words),
            "deploy_mode": self.mode.value,
            "left_out": list(self.left_out),
        }


def submit_command(settings: Settings, request: SubmitRequest, tools: Tools) -> SubmitCommand:
    """The command that runs a verb on the cluster of a project.

    Raises:
        PipelineError: SUBMIT.* if there is no such command.
    """
    master = request.master or settings.master or tools.master or DEFAULT_MASTER
    manager = Manager.of(master)
    own = {key: value for key, value in settings.configuration.items() if key.startswith("spark.")}
    configured = {**settings.spark_conf, **own}
    mode = request.mode or _configured_mode(configured)
    confs, left_out = _shown(configured, request.confs or {}, mode)
    if mode is DeployMode.CLUSTER and manager in _NO_CLUSTER_MODE:
        raise PipelineError("SUBMIT.DEPLOY_MODE", manager=manager.value, reason=_NO_CLUSTER_MODE[manager])
    if manager is Manager.KUBERNETES and not any({**configured, **confs}.get(key) for key in _IMAGES):
        raise PipelineError("SUBMIT.NO_IMAGE", key=_IMAGES[0])
    confs.setdefault(DRIVER_MEMORY_KEY, DEFAULT_DRIVER_MEMORY)
    first = [("--master", master), ("--deploy-mode", mode.value), ("--name", f"headrace {settings.name}")]
    if mode is DeployMode.CLIENT:
        confs.setdefault("spark.pyspark.driver.python", tools.python)
        first.append(("--jars", ",".join(map(str, tools.jars(settings.connectors)))))
        entry = str(tools.entry)
    else:
        entry = f"local://{request.entry}"
    profile = ("--profile", settings.profile) if settings.profile else ()
    return SubmitCommand(
        settings.root,
        tools.spark_home,
        (*first, *(("--conf", f"{key}={value}") for key, value in sorted(confs.items()))),
        (entry, *profile, *request.words),
        mode,
        left_out,
    )


def _configured_mode(configured: Mapping[str, str]) -> DeployMode:
    value = configured.get(_MODE_KEY, DeployMode.CLIENT.value).casefold()
    if value not in [mode.value for mode in DeployMode]:
        reason, instead = "it must be client or cluster", "Write one of them, or leave it out."
        raise PipelineError("SETTINGS.WRONG_VALUE", key=_MODE_KEY, reason=reason, instead=instead)
    return DeployMode(value)


def _shown(
    configured: Mapping[str, str], given: Mapping[str, str], mode: DeployMode
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The confs on the command line, and the names of those that a driver in the cluster must read itself."""
    needed = START_KEYS if mode is DeployMode.CLIENT else tuple(configured)
    wanted = {key: configured[key] for key in needed if key in configured and key not in given}
    secret = [key for key, value in wanted.items() if _is_secret(key, value)]
    refused = [
        *(key for key, value in given.items() if _is_secret(key, value)),
        *(key for key in secret if key in START_KEYS),
    ]
    if refused:
        raise PipelineError("SUBMIT.SECRET", key=refused[0])
    return {**{key: value for key, value in wanted.items() if key not in secret}, **given}, tuple(secret)


def _is_secret(key: str, value: str) -> bool:
    return bool(_REFERENCE.search(value) or _SECRET_NAME.search(key))

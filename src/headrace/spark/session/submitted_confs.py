"""What ``spark-submit`` was given, and how it combines with the settings of a project.

The command line wins over ``spark_conf`` of the project, as it does over all settings; ``spark_conf`` wins over
``spark-defaults.conf``, and so do the defaults of Headrace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import PipelineError
from headrace.settings.memory import DRIVER_MEMORY_KEY
from headrace.spark.session.default_confs import DEFAULT_MASTER, merge_confs

MASTER = "spark.master"
# They have an effect only before Java starts, or for spark-submit itself.
START_KEYS = (
    DRIVER_MEMORY_KEY,
    "spark.driver.memoryOverhead",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.jars.packages",
    "spark.jars.excludes",
    "spark.jars.repositories",
    "spark.jars.ivy",
    "spark.jars.ivySettings",
    "spark.kerberos.principal",
    "spark.kerberos.keytab",
)
_NAME = "spark.app.name"
_JARS = "spark.jars"
# Without it, Spark cannot read or write the tables of the pipeline by their names.
_NEEDED = "spark.sql.catalog.spark_catalog"


@dataclass(frozen=True)
class Submitted:
    """What ``spark-submit`` was given.

    Attributes:
        confs: those of the command line and of its properties file, without those of ``spark-defaults.conf``.
        defaults: those of ``spark-defaults.conf``.
        folder: where it was started; Java resolves relative paths there.
    """

    confs: Mapping[str, str] = field(repr=False)
    defaults: Mapping[str, str] = field(repr=False)
    folder: str

    @classmethod
    def of(cls, properties: Mapping[str, str], defaults: Mapping[str, str], folder: str, program: str) -> Submitted:
        """What was given, from the properties of the Java process.

        Args:
            properties: all confs with which it started.
            defaults: those of ``spark-defaults.conf``.
            folder: its working directory.
            program: the name of the submitted file, which is the application's name if it was given none.
        """
        confs = {key: value for key, value in properties.items() if defaults.get(key) != value}
        if confs.get(_NAME) == program:
            del confs[_NAME]
        if _JARS in confs:
            # As Headrace writes paths, so that the same jar counts once.
            confs[_JARS] = ",".join(jar.removeprefix("file://") for jar in confs[_JARS].split(","))
        return cls(confs, defaults, folder)

    def master(self, configured: str) -> str:
        """The master: the submitted one.

        Args:
            configured: the one of the settings or the environment.

        Raises:
            PipelineError: SESSION.OTHER_MASTER: ``spark-submit`` also runs on ``local[*]`` if it was given no master.
        """
        submitted = self.confs.get(MASTER) or self.defaults.get(MASTER) or DEFAULT_MASTER
        if submitted == DEFAULT_MASTER != configured:
            raise PipelineError("SESSION.OTHER_MASTER", master=configured)
        return submitted

    def merged(self, needed: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """The confs of the session; lists, such as jars, are appended to each other.

        Args:
            needed: what Headrace sets.
            own: those of the project.

        Raises:
            PipelineError: SESSION.CONFLICTING_CONF, SESSION.NEEDS_SUBMIT_OPTION.
        """
        wanted = self.confs.get(_NEEDED)
        if wanted is not None and wanted != needed[_NEEDED]:
            raise PipelineError("SESSION.CONFLICTING_CONF", key=_NEEDED, value=wanted, needed=needed[_NEEDED])
        for key in START_KEYS:
            if key in own and key not in self.confs and self.defaults.get(key) != own[key]:
                raise PipelineError("SESSION.NEEDS_SUBMIT_OPTION", key=key)
        started = {key: value for key, value in needed.items() if key not in START_KEYS}
        return merge_confs(merge_confs(started, own), self.confs)


def check_folder(submitted: str, folder: str) -> None:
    """Refuse a Java process whose relative paths would be those of another folder.

    Raises:
        PipelineError: SESSION.OTHER_FOLDER.
    """
    if submitted != folder:
        raise PipelineError("SESSION.OTHER_FOLDER", submitted=submitted, folder=folder)


def refuse_connect(environ: Mapping[str, str], confs: Mapping[str, str]) -> None:
    """Refuse a session of Spark Connect.

    Args:
        environ: the process environment.
        confs: the project's settings.

    Raises:
        PipelineError: SESSION.CONNECT.
    """
    for name, setting in (("SPARK_REMOTE", environ), ("spark.remote", confs)):
        if setting.get(name):
            raise PipelineError("SESSION.CONNECT", name=name)

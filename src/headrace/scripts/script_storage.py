"""The storage of a script's tables and checkpoints: that of the surrounding project, or ``./storage``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from headrace.errors import PipelineError
from headrace.model.names import Naming
from headrace.settings.discover import find_settings
from headrace.settings.keyring import from_keyring
from headrace.settings.load import load_settings
from headrace.settings.secrets import DIRECTORY_VARIABLE, Secrets
from headrace.settings.settings import DEFAULT_SCHEMA, DEFAULT_STORAGE, Settings
from headrace.settings.storage import StorageLayout
from headrace.stores.paths import on_disk, storage_path


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ScriptStorage:
    """The storage, names and settings of a script.

    ``confs`` may hold secrets and is never printed.
    """

    layout: StorageLayout
    naming: Naming
    secrets: Secrets
    in_project: bool = False
    connectors: tuple[str, ...] = ()
    confs: Mapping[str, str] = field(default_factory=_empty, repr=False)
    paths: Mapping[str, str] = field(default_factory=_empty)

    def script_name(self, file: Path) -> str:
        """A unique name for a script.

        Its path relative to the folder of the storage, otherwise its absolute path; without ``.py``.
        """
        file = file.absolute().with_suffix("") if file.suffix == ".py" else file.absolute()
        home = Path(self.layout.root).absolute().parent
        return (file.relative_to(home) if file.is_relative_to(home) else file).as_posix()


def script_storage_of(
    folder: Path, environ: Mapping[str, str], *, profile: str | None = None, storage: str | None = None
) -> ScriptStorage:
    """The storage for scripts in *folder*: that of its project, or ``./storage``.

    Args:
        folder: where to look for settings, also in its parents.
        environ: the process environment.
        profile: of the project's settings.
        storage: another folder for tables and checkpoints, relative to *folder*.

    Raises:
        PipelineError, Problems: the settings are wrong; STORAGE.NEEDS_DISK.
    """
    try:
        settings = load_settings(find_settings(folder), profile=profile, environ=environ)
    except PipelineError as error:
        if error.code != "SETTINGS.NOT_FOUND":
            raise
        named = environ.get(DIRECTORY_VARIABLE)
        layout = StorageLayout(str(folder / (storage or DEFAULT_STORAGE)))
        secrets = Secrets(environ, folder / named if named else None, from_keyring)
        return ScriptStorage(layout, Naming(DEFAULT_SCHEMA), secrets)
    return _in_project(settings, environ, storage)


def _in_project(settings: Settings, environ: Mapping[str, str], storage: str | None) -> ScriptStorage:
    secrets = settings.open_secrets(environ)
    if storage is None:
        on_disk(storage_path(settings.storage), "running a script or a notebook")
    confs = dict(settings.resolved_spark_conf(secrets, environ))
    if settings.master:
        confs["spark.master"] = settings.master
    given = settings.resolved_configuration(secrets, environ)
    configuration = {key: value for key, value in given.items() if not key.startswith("pipelines.")}
    return ScriptStorage(
        layout=settings.layout if storage is None else StorageLayout(str(settings.root / storage)),
        naming=settings.naming,
        secrets=secrets,
        in_project=True,
        connectors=settings.connectors,
        confs={**confs, **configuration},
        paths=settings.paths,
    )

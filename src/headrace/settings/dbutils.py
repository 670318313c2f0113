"""The part of the vendor's ``dbutils`` that works here: secrets. Everything else is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from headrace.errors import PipelineError
from headrace.settings.secrets import Secrets

_FIXES: Mapping[str, str] = {
    "fs": "Read data with spark.read, and local files with pathlib.",
    "widgets": 'Put the value into configuration and read it with spark.conf.get("key").',
    "notebook": "Import the module that holds the code.",
    "jobs": "Set values with headrace run --set KEY=VALUE.",
    "library": "Install packages into the Python environment that runs the update; restartPython does nothing.",
    "data": "Look at a dataset with headrace preview.",
}
_SECRETS_ONLY = (
    "Use dbutils.secrets.get, getBytes, list or listScopes; nothing else of dbutils is supported, "
    "except library.restartPython."
)


@dataclass(frozen=True)
class SecretMetadata:
    """An item of ``dbutils.secrets.list``."""

    key: str


@dataclass(frozen=True)
class SecretScope:
    """An item of ``dbutils.secrets.listScopes``."""

    name: str

    def getName(self) -> str:  # noqa: N802 - the vendor's name
        """The scope's name."""
        return self.name


# Below, "list" is a method.
_Keys: TypeAlias = "list[SecretMetadata]"
_Scopes: TypeAlias = "list[SecretScope]"


class SecretsUtils:
    """``dbutils.secrets``, with the vendor's names."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def get(self, scope: str, key: str) -> str:
        """The value of a secret.

        Raises:
            PipelineError: SECRET.NOT_FOUND.
        """
        return self._secrets.get(scope, key)

    def getBytes(self, scope: str, key: str) -> bytes:  # noqa: N802 - the vendor's name
        """The value of a secret as UTF-8.

        Raises:
            PipelineError: SECRET.NOT_FOUND.
        """
        return self._secrets.get(scope, key).encode()

    def list(self, scope: str) -> _Keys:
        """The keys of a scope."""
        return [SecretMetadata(key) for key in self._secrets.list(scope)]

    def listScopes(self) -> _Scopes:  # noqa: N802 - the vendor's name
        """The scopes."""
        return [SecretScope(name) for name in self._secrets.scopes()]

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"secrets.{name}", _SECRETS_ONLY)

    def __repr__(self) -> str:
        return "dbutils.secrets"


class LibraryUtils:
    """``dbutils.library``; notebooks call ``restartPython`` after ``%pip install``."""

    def restartPython(self) -> None:  # noqa: N802 - the vendor's name
        """Do nothing: an update installs no packages, so Python needs no restart."""

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"library.{name}", _FIXES["library"])

    def __repr__(self) -> str:
        return "dbutils.library"


class DbUtils:
    """``dbutils`` for a pipeline's files.

    Any attribute other than ``secrets`` and ``library`` raises PipelineError UNSUPPORTED.DBUTILS.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = SecretsUtils(secrets)
        self.library = LibraryUtils()

    def __getattr__(self, name: str) -> NoReturn:
        refuse(name, _FIXES.get(name, _SECRETS_ONLY))

    def __repr__(self) -> str:
        return "dbutils"


def refuse(name: str, fix: str) -> NoReturn:
    """Refuse an unsupported part of ``dbutils``.

    Raises:
        PipelineError: UNSUPPORTED.DBUTILS; AttributeError for names that Python itself looks up.
    """
    # Python itself looks up special names, and needs an AttributeError.
    if name.rpartition(".")[2].startswith("_"):
        raise AttributeError(name)
    raise PipelineError("UNSUPPORTED.DBUTILS", what=f"dbutils.{name}", instead=fix)

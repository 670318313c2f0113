"""Where the storages of points lie: in their folders, or in a bucket of a gateway that keeps objects as files.

In both cases the campaign reads and watches the files in ``storage`` of a point's folder, without the store's protocol.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.servers.s3 import GATEWAY, running_s3

BUCKET = "campaign"


@dataclass(frozen=True)
class Disk:
    """Storages in the folders of their points."""

    connectors: ClassVar[tuple[str, ...]] = ()
    # The option of a campaign that chooses it.
    words: ClassVar[str] = ""

    def place(self, folder: Path) -> str:
        """Prepare the storage of a new project; returns its line of the settings."""
        del folder
        return ""

    def delete(self, folder: Path) -> None:
        """Delete the storage of a project."""
        shutil.rmtree(folder / "storage", ignore_errors=True)


@dataclass(frozen=True)
class Bucket:
    """Storages in a bucket.

    Attributes:
        objects: the folder in which the gateway keeps the bucket's objects.
        environ: the environment variables that lead to the gateway.
    """

    objects: Path
    environ: Mapping[str, str] = field(repr=False)
    connectors: ClassVar[tuple[str, ...]] = ("s3",)
    words: ClassVar[str] = " --store s3"

    def place(self, folder: Path) -> str:
        """Prepare the storage of a new project; returns its line of the settings."""
        shutil.rmtree(self.objects / folder.name, ignore_errors=True)
        (folder / "storage").symlink_to(self.objects / folder.name)
        return f"storage: s3://{BUCKET}/{folder.name}\n"

    def delete(self, folder: Path) -> None:
        """Delete the storage of a project."""
        shutil.rmtree(self.objects / folder.name, ignore_errors=True)


Store = Disk | Bucket


class NoGatewayError(Exception):
    """The gateway is not installed."""


@contextmanager
def opened_store(name: str, folder: Path) -> Iterator[Store]:
    """The store of a campaign, whose server runs meanwhile.

    Args:
        name: ``disk`` or ``s3``.
        folder: for the objects of a server; its content is replaced.
    """
    if name == "disk":
        yield Disk()
        return
    if not GATEWAY.exists():
        raise NoGatewayError("there is no gateway of S3; run `make test-servers`")
    shutil.rmtree(folder, ignore_errors=True)
    buckets = folder / "buckets"
    buckets.mkdir(parents=True)
    with running_s3(buckets) as server:
        server.make_bucket(BUCKET)
        os.environ.update(server.environ)
        yield Bucket(buckets / BUCKET, server.environ)


def copy_storage(source: Path, target: Path) -> None:
    """Copy the storage of a project, with what the gateway notes at each file, to one that has none."""
    shutil.copytree((source / "storage").resolve(), (target / "storage").resolve())

"""The paths of a pipeline's tables, checkpoints and event log; nothing here accesses the disk."""

from __future__ import annotations

import errno
import hashlib
import os.path
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.stores.paths import StoragePath, storage_path
from headrace.stores.uris import SCHEMES, UNTRIED_SCHEMES, StoreUri

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# A folder may have such a name, but a part of delta-rs reads paths as URLs (seen in deltalake 1.6.6).
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^\.")
_MAX_FLOW_NAME = 180
# The error numbers of a full disk.
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def resolve_storage(value: str, root: Path, *, allow_untried: bool = False, location: Location | None = None) -> str:
    """The storage as an absolute local path, or as the canonical URI of a place in an object store.

    Args:
        value: a path, relative to *root*, a ``file:`` URI, or the URI of a folder in a bucket.
        root: the folder of the settings.
        allow_untried: whether the storage may be where no storage was run yet.
        location: of the setting.

    Raises:
        PipelineError: STORAGE.INVALID, STORAGE.NOT_LOCAL or STORAGE.UNKNOWN_SCHEME.
    """
    if not value.strip():
        raise PipelineError("STORAGE.INVALID", location=location, reason="it is empty")
    if "${" in value or "{{" in value:
        raise PipelineError(
            "STORAGE.INVALID", location=location, reason="it contains a reference, which is not resolved here"
        )
    match = _SCHEME.match(value)
    if not match:
        return _normalized(str(root.absolute() / value), location)
    scheme = match.group(1).lower()
    if scheme == "file":
        return _normalized(_local_path(value, location), location)
    if scheme not in SCHEMES:
        raise PipelineError("STORAGE.UNKNOWN_SCHEME", location=location, scheme=scheme)
    if scheme in UNTRIED_SCHEMES and not allow_untried:
        raise PipelineError("STORAGE.NOT_LOCAL", location=location, scheme=scheme)
    return _place(value, location)


def _place(uri: str, location: Location | None) -> str:
    try:
        place = StoreUri.checked(uri)
    except ValueError as error:
        raise PipelineError("STORAGE.INVALID", location=location, reason=str(error)) from error
    if not place.key:
        # The store has other folders, and to list it takes long.
        raise PipelineError("STORAGE.INVALID", location=location, reason="it names a bucket, and no folder in it")
    return str(place)


def _split(uri: str, location: Location | None) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise PipelineError("STORAGE.INVALID", location=location, reason="it is not a URI") from error


def _local_path(uri: str, location: Location | None) -> str:
    parts = _split(uri, location)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise PipelineError("STORAGE.INVALID", location=location, reason="a file: URI must look like file:///folder")
    path = unquote(parts.path)
    if "\x00" in path:
        raise PipelineError("STORAGE.INVALID", location=location, reason="it contains a NUL character")
    # POSIX distinguishes two slashes at the start of a path from one.
    return "/" + path.lstrip("/")


def _normalized(path: str, location: Location | None) -> str:
    escape = _ESCAPE.search(path)
    if escape:
        reason = f'"{path}" contains "{escape[0]}", which delta-rs reads as one character; use a folder without it'
        raise PipelineError("STORAGE.INVALID", location=location, reason=reason)
    return os.path.normpath(path)


class MonitoringFile(str, Enum):
    """The files of monitoring: caches of the metrics of events that were already folded, and of what the storage has.

    Alerts; messages to send; why the latest update did not start. And of maintenance: its log, a Delta table like the
    event log, which has one writer each; and its lock. And of the process that starts updates by schedules: its lease,
    what it has decided, and the schedules that users have paused. And of the process that takes requests: its lease,
    the requests, and the plans that it has made. And which tables are published in metastores.
    """

    METRICS = "metrics.json"
    SURVEY = "survey.json"
    # Of a storage in a bucket: contents of its objects.
    OBJECTS = "objects.sqlite"
    REFUSED = "refused.json"
    ALERTS = "alerts.json"
    # A folder.
    OUTBOX = "outbox"
    OPERATIONS = "operations"
    MAINTENANCE_LOCK = "maintenance.lock"
    SCHEDULE_LEASE = "serve.lease.json"
    SCHEDULES = "serve/schedules.json"
    PAUSES = "serve/pauses.json"
    REQUEST_LEASE = "requests.lease.json"
    REQUESTS = "serve/requests.json"
    # A folder, of this machine.
    PLANS = "plans"
    PUBLICATIONS = "catalogs.json"


# What all machines share; the other files are caches, or about a machine.
_SHARED = frozenset(
    {
        MonitoringFile.OPERATIONS,
        MonitoringFile.SCHEDULE_LEASE,
        MonitoringFile.SCHEDULES,
        MonitoringFile.PAUSES,
        MonitoringFile.REQUEST_LEASE,
        MonitoringFile.REQUESTS,
        MonitoringFile.PUBLICATIONS,
    }
)


@dataclass(frozen=True)
class StorageLayout:
    """The paths of the contract below one storage root.

    Names keep their spelling, so always pass the name as the dataset was declared.

    Attributes:
        root: the folder of the storage: a path of a local disk, or the canonical URI of an object store.
        local_root: the folder of what only this machine needs, such as logs; empty for the storage itself.
    """

    root: str
    local_root: str = ""

    def table(self, naming: Naming, name: QualifiedName) -> str:
        """The Delta table of a dataset."""
        return self._join("tables", *_dataset_parts(naming, name))

    def cdc_state(self, naming: Naming, name: QualifiedName) -> str:
        """The tombstones and retained events of change data capture, which the table itself cannot hold."""
        return self._join("system", "cdc", *_dataset_parts(naming, name))

    def quarantine(self, naming: Naming, name: QualifiedName) -> str:
        """The Delta table of a dataset's quarantined rows."""
        return f"{self.table(naming, name)}_quarantine"

    def checkpoint(self, naming: Naming, dataset: QualifiedName, flow: str, epoch: int) -> str:
        """The checkpoint of a flow in one of its epochs."""
        return self._join(self._flow(naming, dataset, flow), str(epoch))

    def flow_state(self, naming: Naming, dataset: QualifiedName, flow: str) -> str:
        """Headrace's own file about a flow, next to its checkpoints."""
        return self._join(self._flow(naming, dataset, flow), "flow.json")

    def auto_loader(self, naming: Naming, dataset: QualifiedName, flow: str) -> str:
        """The folder for the schemas and ledgers of the files that a flow, or a view, reads."""
        return self._join(self._flow(naming, dataset, flow), "auto_loader")

    def flows(self, naming: Naming, dataset: QualifiedName) -> str:
        """The folder of all flows that feed, or fed, a dataset."""
        return self._join("checkpoints", *_dataset_parts(naming, dataset))

    @property
    def views(self) -> str:
        """The folder of the definitions of persisted views."""
        return self._join("system", "views")

    def view(self, naming: Naming, name: QualifiedName) -> str:
        """The file with the definition of a persisted view."""
        return f"{self._join('system', 'views', *_dataset_parts(naming, name))}.json"

    @property
    def events(self) -> str:
        """The event log, a Delta table."""
        return self._join("system", "events")

    @property
    def logs(self) -> str:
        """Folder of Spark's and our own log files."""
        return f"{self.local_root or self.root.rstrip('/')}/system/logs"

    def monitoring(self, file: MonitoringFile) -> str:
        """A file of what readers of the event log store, or maintenance."""
        if file in _SHARED:
            return self._join("system", file.value)
        return f"{self.local_root or self.root.rstrip('/')}/system/{file.value}"

    @property
    def lease(self) -> StoragePath:
        """The lease file, which names the update that may write."""
        return storage_path(self._join("lease.json"))

    def _flow(self, naming: Naming, dataset: QualifiedName, flow: str) -> str:
        return "/".join(("checkpoints", *_dataset_parts(naming, dataset), path_safe(flow)))

    def _join(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), *parts))


def path_safe(flow: str) -> str:
    """The name of a flow as one part of a path: different names stay different, ordinary ones stay unchanged."""
    encoded = _UNSAFE.sub(lambda match: "".join(f"~{byte:02x}" for byte in match.group().encode()), flow)
    if len(encoded) <= _MAX_FLOW_NAME:
        return encoded or "~"
    # No encoded name contains a double tilde, so a shortened one cannot equal another flow's.
    return f"{encoded[:_MAX_FLOW_NAME]}~~{hashlib.sha256(flow.encode()).hexdigest()[:16]}"


def _dataset_parts(naming: Naming, name: QualifiedName) -> tuple[str, ...]:
    schema = name.schema or naming.schema
    return (schema, name.name) if name.catalog is None else (name.catalog, schema, name.name)

"""Where the requests are stored. Only who holds the lease of requests writes them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.project.lease import Lease
from headrace.project.requests.request import Request, UnreadableRequests, parse_requests, requests_text
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, storage_path


class RequestFile:
    """The file of the requests of a pipeline.

    Args:
        file: where it is.
        storage: of the pipeline, by which a copy of a storage is found.
        host: this machine.
        lease: of the requests.
    """

    def __init__(self, file: StoragePath, storage: str, host: str, lease: Lease) -> None:
        self._file = file
        self._storage = storage
        self._host = host
        self._lease = lease
        self._tag: str | None = None

    def read(self) -> tuple[bool, dict[str, Request]]:
        """Whether the requests are those of a storage that this is a copy of; and the requests, by id.

        Raises:
            PipelineError: SERVE.REQUESTS_UNREADABLE.
            OSError: the file cannot be read.
        """
        try:
            storage, found = _parsed(self._file, self._content())
        except FileNotFoundError:
            return False, {}
        return storage != self._storage, found

    def write(self, requests: Iterable[Request]) -> None:
        """Replace what was read or written last.

        Raises:
            PipelineError: LEASE.LOST: another process has taken over.
            OSError: the file cannot be written.
        """
        self._lease.check()
        text = requests_text(requests, self._storage)
        file = self._file
        if not isinstance(file, ObjectPath):
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, text)
            return
        store, content = file.store, text.encode()
        if self._tag is None:
            tag = store.put_if_absent(file.key, content, replaceable=True)
        else:
            tag = store.put_if_tag(file.key, content, self._tag)
        if tag is None:
            raise PipelineError("LEASE.LOST", host=self._host, file=file)
        self._tag = tag

    def _content(self) -> bytes:
        if not isinstance(self._file, ObjectPath):
            return self._file.read_bytes()
        content, self._tag = self._file.store.get(self._file.key)
        return content


def stored_requests(settings: Settings) -> dict[str, Request]:
    """The requests as they are stored, for any process; without those of a storage that this one is a copy of.

    Raises:
        PipelineError: SERVE.REQUESTS_UNREADABLE.
        OSError: the file cannot be read.
    """
    file = storage_path(settings.layout.monitoring(MonitoringFile.REQUESTS))
    try:
        storage, found = _parsed(file, file.read_bytes())
    except FileNotFoundError:
        return {}
    return found if storage == settings.storage else {}


def _parsed(file: StoragePath, content: bytes) -> tuple[str, dict[str, Request]]:
    try:
        return parse_requests(content)
    except UnreadableRequests as error:
        raise PipelineError("SERVE.REQUESTS_UNREADABLE", file=file, reason=str(error)) from error

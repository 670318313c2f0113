"""The size of a stream's state in its checkpoint, counting only the files of the newest version.

Layout after Spark's ``HDFSBackedStateStoreProvider`` (``<version>.snapshot`` and ``.delta``) and ``RocksDBFileManager``
(``<version>.zip``, which names its SST files, and ``.changelog``); in checkpoint format 2, ``_<id>`` follows the
version.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable

from headrace.stores.paths import StoragePath

STATE_FILE = re.compile(r"(?P<version>\d+)(?:_[0-9a-f-]+)?\.(?P<kind>zip|snapshot|changelog|delta)")


def state_sizes(checkpoint: StoragePath) -> tuple[int, ...]:
    """The bytes of each stateful operator, in the order of Spark's numbers; empty before the first batch.

    An estimate: the state is compressed, and files that change meanwhile may count twice or not at all.
    """
    try:
        operators = sorted((entry for entry in (checkpoint / "state").iterdir() if entry.name.isdigit()), key=_number)
    except FileNotFoundError:
        return ()
    return tuple(sum(map(store_size, store_folders(operator))) for operator in operators)


def _number(folder: StoragePath) -> int:
    return int(folder.name)


def store_folders(operator: StoragePath) -> Iterable[StoragePath]:
    """The folders of the state stores: one or several per partition."""
    return {file.parent for file in operator.rglob("*") if STATE_FILE.fullmatch(file.name)}


def store_size(store: StoragePath) -> int:
    """The bytes of the newest version of a state store, by its folder."""
    files = [(int(found["version"]), found["kind"], file) for file in store.iterdir() if (found := _match(file))]
    snapshots = [(version, file) for version, kind, file in files if kind in ("zip", "snapshot")]
    version, base = max(snapshots, default=(0, None))
    later = {number: file for number, kind, file in files if kind in ("changelog", "delta") and number > version}
    return (0 if base is None else _snapshot_size(base)) + sum(map(_bytes_of, later.values()))


def _match(file: StoragePath) -> re.Match[str] | None:
    return STATE_FILE.fullmatch(file.name)


def _snapshot_size(file: StoragePath) -> int:
    if file.suffix != ".zip":
        return _bytes_of(file)
    try:
        with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
            text = archive.read("metadata").decode().partition("\n")[2]
        return _bytes_of(file) + sum(int(rows["sizeBytes"]) for rows in json.loads(text)["sstFiles"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        # It is being written, or was just deleted.
        return 0


def _bytes_of(file: StoragePath) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0

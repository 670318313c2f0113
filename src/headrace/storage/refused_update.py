"""Why the latest update did not start: a file in the storage, because such an update writes no events.

Only an update that holds the lease writes to the event log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from headrace.atomic_write import replace_file
from headrace.stores.paths import StoragePath


def write_refusal(file: StoragePath, codes: Iterable[str]) -> None:
    """Store the error codes of the problems, if there is a storage and it can be written."""
    with suppress(OSError):
        if file.parent.is_dir():
            replace_file(file, json.dumps({"problems": Counter(codes)}))


def remove_refusal(file: StoragePath) -> None:
    """Remove the file."""
    with suppress(OSError):
        file.unlink(missing_ok=True)


def refused_problems(file: StoragePath) -> Mapping[str, int]:
    """How many problems of each error code kept the latest update from starting; none if it has started."""
    try:
        return {str(code): int(count) for code, count in json.loads(file.read_bytes())["problems"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}

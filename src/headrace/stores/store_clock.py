"""The age of an object by the clock of its store, which is the same for all machines."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from urllib.request import Request, urlopen

from headrace.stores.object_path import ObjectPath

_TIMEOUT_S = 10


def age_s(path: ObjectPath) -> float | None:
    """How long ago an object was written, in seconds; None if the store does not say.

    Compares two headers of one answer, ``Date`` and ``Last-Modified``, both in whole seconds.
    """
    # The client itself leaves the first one out.
    request = Request(path.store.signed_url("HEAD", path.key), method="HEAD")  # noqa: S310 - the store's own URL
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the same
            now, then = (parsedate_to_datetime(answer.headers[name]) for name in ("Date", "Last-Modified"))
    except (OSError, TypeError, ValueError):
        return None
    return max((now - then).total_seconds(), 0.0)

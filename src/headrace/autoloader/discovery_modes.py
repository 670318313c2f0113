"""Choose how a stream discovers new files, by its store and options."""

from __future__ import annotations

from typing import Protocol

from headrace.autoloader.discovery import Clock, LocalDiscovery
from headrace.autoloader.file_notifications import FolderWatch
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.listing import ListingDiscovery
from headrace.autoloader.object_notifications import SqsQueue
from headrace.autoloader.source import Source


class Discovery(Protocol):
    """Finds new files below a path and records them in a ledger."""

    @property
    def unstable_files(self) -> tuple[str, ...]:
        """Paths of files that have content and keep changing."""
        ...

    def poll(self) -> int:
        """Record new stable files and return how many."""
        ...

    def poll_until_stable(self) -> int:
        """Poll, and poll again while files are being written, for half a minute at most."""
        ...

    def has_new_files(self) -> bool:
        """Whether a poll would find new files, now or once they are stable; records nothing."""
        ...

    def close(self) -> None:
        """Stop watching for changes."""
        ...


def open_discovery(source: Source, ledger: Ledger, clock: Clock, *, keeps_polling: bool) -> Discovery:
    """Open the discovery of a source; *keeps_polling* is True for a stream that polls repeatedly.

    Raises:
        PipelineError: ``AUTO_LOADER.PACKAGE``, ``AUTO_LOADER.WATCH``: notifications are not available.
    """
    options, tree = source.options, source.tree
    if source.path.startswith("/"):
        watch = FolderWatch(tree.base) if keeps_polling and options.notifications else None
        return LocalDiscovery(
            ledger, tree, full_listing_interval_s=options.full_listing_interval_s, clock=clock, watch=watch
        )
    queue = SqsQueue(options.queue_url, options.region) if options.notifications and options.queue_url else None
    return ListingDiscovery(
        ledger, tree, full_listing_interval_s=options.full_listing_interval_s, clock=clock, queue=queue
    )

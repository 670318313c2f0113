"""How the new files of a stream are found, by where they lie and what its options say."""

from __future__ import annotations

from typing import Protocol

from headrace.autoloader.discovery import Clock, LocalDiscovery
from headrace.autoloader.file_notifications import FolderWatch
from headrace.autoloader.ledger import Ledger
from headrace.autoloader.listing import ListingDiscovery
from headrace.autoloader.object_notifications import SqsQueue
from headrace.autoloader.source import Source


class Discovery(Protocol):
    """New files below a path, recorded in a ledger."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Paths of files with content that keep changing."""
        ...

    def look(self) -> int:
        """Record what is new and whole; how many files that were."""
        ...

    def look_until_settled(self) -> int:
        """As :meth:`look`, and again while files are being written, for half a minute at most."""
        ...

    def finds_any(self) -> bool:
        """Whether a look would find something, now or once it has settled; nothing is recorded."""
        ...

    def close(self) -> None:
        """Let go of what tells of changes."""
        ...


def discovery_of(source: Source, ledger: Ledger, clock: Clock, *, stays: bool) -> Discovery:
    """What looks for the files of a source; *stays* says that it will look again and again.

    Raises:
        PipelineError: ``AUTO_LOADER.PACKAGE``, ``AUTO_LOADER.WATCH``: what is to tell of changes cannot be had.
    """
    options, tree = source.options, source.tree
    if source.path.startswith("/"):
        watch = FolderWatch(tree.base) if stays and options.notifications else None
        return LocalDiscovery(ledger, tree, full_look_s=options.full_look_s, clock=clock, watch=watch)
    queue = SqsQueue(options.queue_url, options.region) if options.notifications and options.queue_url else None
    return ListingDiscovery(ledger, tree, full_look_s=options.full_look_s, clock=clock, queue=queue)

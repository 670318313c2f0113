"""``cloudFiles.cleanSource``: what becomes of files once they are in the target, and some time has passed."""

from __future__ import annotations

from headrace.autoloader.file_states import cleanable, note_cleaned
from headrace.autoloader.ledger import Ledger
from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.stores.paths import whole_path
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError

# Files cleaned up after a batch, so that none waits long for it.
_AT_ONCE = 1000


def clean(ledger: Ledger, options: LoaderOptions, tree: Tree, now_ms: int) -> int:
    """Delete or move files that were committed long enough ago; how many.

    It is done as far as it can be, as the vendor has it: what cannot be moved is tried again after the next batch.
    A file that has changed since it was read is left alone.
    """
    if options.clean_source == "OFF":
        return 0
    done: list[tuple[int, str | None]] = []
    for file in cleanable(ledger, now_ms - int(options.clean_after_s * 1000), _AT_ONCE):
        try:
            now = tree.store.stat(file.path)
            if now is None:
                done.append((file.number, None))
            elif (now.size, now.mtime_ns) == (file.size, file.mtime_ns):
                done.append((file.number, _cleaned(file.path, options, tree)))
        except (OSError, PipelineError):
            continue
    note_cleaned(ledger, done, now_ms=now_ms)
    return len(done)


def _cleaned(path: str, options: LoaderOptions, tree: Tree) -> str | None:
    if options.move_to is None or options.clean_source == "DELETE":
        tree.store.delete(path)
        return None
    base = tree.base.rstrip("/") + "/"
    # What was read below another path before keeps its name.
    below = path.removeprefix(base) if path.startswith(base) else path.rpartition("/")[2]
    target = f"{whole_path(options.move_to)}/{below}"
    tree.store.move(path, target)
    return target

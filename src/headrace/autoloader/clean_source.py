"""``cloudFiles.cleanSource``: delete or move files some time after they were committed."""

from __future__ import annotations

from headrace.autoloader.ledger.file_states import files_to_clean, record_cleaned
from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.stores.paths import normalize_path
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError

# Maximum number of files to clean after a batch, so that no batch waits long for it.
_MAX_FILES = 1000


def clean_committed_files(ledger: Ledger, options: LoaderOptions, tree: Tree, now_ms: int) -> int:
    """Delete or move files that were committed long enough ago, and return how many.

    This is best effort, as in the vendor's product: a file that cannot be moved is retried after the next batch.
    A file that changed after it was read is not touched.
    """
    if options.clean_source == "OFF":
        return 0
    cleaned: list[tuple[int, str | None]] = []
    for file in files_to_clean(ledger, now_ms - int(options.clean_after_s * 1000), _MAX_FILES):
        try:
            current = tree.store.stat(file.path)
            if current is None:
                cleaned.append((file.number, None))
            elif (current.size, current.mtime_ns) == (file.size, file.mtime_ns):
                cleaned.append((file.number, _clean_file(file.path, options, tree)))
        except (OSError, PipelineError):
            continue
    record_cleaned(ledger, cleaned, now_ms=now_ms)
    return len(cleaned)


def _clean_file(path: str, options: LoaderOptions, tree: Tree) -> str | None:
    if options.move_to is None or options.clean_source == "DELETE":
        tree.store.delete(path)
        return None
    base = tree.base.rstrip("/") + "/"
    # A file that was read below another path before keeps its name.
    below = path.removeprefix(base) if path.startswith(base) else path.rpartition("/")[2]
    target = f"{normalize_path(options.move_to)}/{below}"
    tree.store.move(path, target)
    return target

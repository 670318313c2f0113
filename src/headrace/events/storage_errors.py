"""The exceptions of delta-rs for storage errors, and their reason on one line."""

from __future__ import annotations

import re

from deltalake.exceptions import DeltaError

STORAGE_ERRORS: tuple[type[Exception], ...] = (DeltaError, OSError)

# The storage layer formats its chain of causes as a coloured tree.
_TREE = re.compile(r"\x1b\[[0-9;]*m|↳")


def reason_of(error: BaseException) -> str:
    """The chain of causes on one line, without colours and without a full stop."""
    lines = (_TREE.sub("", line).strip(" .:") for line in str(error).splitlines())
    return ": ".join(line for line in lines if line) or type(error).__name__

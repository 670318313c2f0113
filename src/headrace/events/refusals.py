"""What delta-rs and Arrow raise when a storage refuses, and its reason on one line."""

from __future__ import annotations

import re

import pyarrow as pa
from deltalake.exceptions import DeltaError

REFUSALS: tuple[type[Exception], ...] = (DeltaError, OSError, pa.ArrowException)

# The storage layer draws its chain of causes as a coloured tree.
_TREE = re.compile(r"\x1b\[[0-9;]*m|↳")


def reason_of(error: BaseException) -> str:
    """The chain of causes on one line, without colours and without a full stop."""
    lines = (_TREE.sub("", line).strip(" .:") for line in str(error).splitlines())
    return ": ".join(line for line in lines if line) or type(error).__name__

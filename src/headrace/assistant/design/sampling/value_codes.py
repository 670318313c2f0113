"""Numbers in place of the values of a sample, so that rows can be compared fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]


def codes_of(values: pa.ChunkedArray) -> Codes:
    """A number for each value, the same for equal values; -1 for null."""
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_nested(array.type):
        array = pa.array([None if value is None else repr(value) for value in array.to_pylist()], pa.string())
    indices = array.dictionary_encode().indices
    return np.asarray(pc.fill_null(indices.cast(pa.int64()), -1))


def combined(codes: Sequence[Codes], rows: int) -> Codes:
    """A number for each row, the same for rows with equal values."""
    found: Codes = np.zeros(rows, np.int64)
    for column in codes:
        # Both have less than as many values as there are rows, so the product fits.
        pairs = found * (int(column.max(initial=-1)) + 2) + column + 1
        found = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return found


def is_first(codes: Codes) -> npt.NDArray[np.bool_]:
    """Whether no row before a row is equal to it."""
    found = np.zeros(len(codes), np.bool_)
    found[np.unique(codes, return_index=True)[1]] = True
    return found

"""Read files as Arrow batches of a given schema; values that do not fit go into the rescued data column.

This runs in Spark's Python workers, so it imports nothing heavier than pyarrow.
"""

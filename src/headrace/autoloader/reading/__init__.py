"""Contents of files as Arrow batches of a given schema, with what does not fit in a column of its own.

This runs in Spark's Python workers: it imports pyarrow and nothing heavier.
"""

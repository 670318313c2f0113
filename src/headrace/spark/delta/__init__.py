"""Delta tables through Spark: create, alter, clear, commit, and count what commits changed."""

# The modules that other packages may import.
__all__ = [
    "alter",
    "clear",
    "commit_counts",
    "conflicts",
    "conform",
    "contents",
    "erase_conditions",
    "erase_rows",
    "fencing",
    "first_commit",
    "not_null_columns",
    "optimize",
    "rescued_rows",
    "restore",
    "small_append",
    "tables",
    "transaction",
]

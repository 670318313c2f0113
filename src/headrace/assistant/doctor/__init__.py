"""Finds out what is wrong with a pipeline, and whether it meets the success criteria: facts in, findings out. Pure."""

# The modules that other packages may import.
__all__ = [
    "checklist",
    "checks",
    "criteria",
    "diagnose",
    "facts",
    "findings",
    "programs",
    "sql_programs",
    "stream_readers",
]

"""Developing a pipeline: what its files are, what a save changes, and what `headrace dev` shows."""

# The modules that other packages may import.
__all__ = ["board", "check", "dev_loop", "plan_lines", "project_files", "source_watch"]

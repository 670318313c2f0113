"""Watches a running query: lag, state, lost offsets, changed files, its end."""

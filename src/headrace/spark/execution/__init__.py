"""Runs the flows of an update, each attempt in a thread of its own."""

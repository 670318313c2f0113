"""Builds changed datasets beside those of production, compares them, and swaps them in."""

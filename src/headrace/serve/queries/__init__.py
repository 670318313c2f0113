"""Queries and previews that somebody waits for: as an answer of the API, as a page, and as CSV."""

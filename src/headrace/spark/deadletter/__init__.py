"""Finds records that a query or a sink fails on, so that the rest of their batch is written."""

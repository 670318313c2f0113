"""Reads Avro files."""

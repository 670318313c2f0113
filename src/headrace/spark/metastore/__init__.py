"""Metastores, through the clients of the session's Java process."""

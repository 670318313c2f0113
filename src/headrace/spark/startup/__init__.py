"""Opens the Spark session and patches PySpark's classes."""

# The modules that other packages may import.
__all__ = ["open_session", "submitted_session"]

"""Opens the Spark session and patches PySpark's classes."""

# The modules that other packages may import.
__all__ = ["open_session", "session_start", "submitted_session"]

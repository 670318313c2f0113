"""Opens the session and patches PySpark's classes."""

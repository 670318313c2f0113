"""Reads what the doctor looks at: storage, event log, settings, program text and machine. Starts no JVM."""

# The modules that other packages may import.
__all__ = ["careful_reading", "crash_tests", "logged_facts", "pipeline_doctor"]

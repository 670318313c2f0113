"""The adapters: the only code that holds a Spark session."""

"""The connector jars for sources and sinks: the lock, and the download. Imports no Spark."""

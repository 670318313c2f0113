"""The jars that reach sources and sinks: which ones are locked, and how they get onto this machine. No Spark import."""

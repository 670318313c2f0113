"""The settings of a project: found, checked, defaulted; its files, storage paths and secrets. No Spark."""

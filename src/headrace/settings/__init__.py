"""Finds, checks and loads the settings of a project; its files, storage paths and secrets. Needs no Spark."""

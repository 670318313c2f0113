"""Stages: storages of their own, in which changed datasets are built beside those of production."""

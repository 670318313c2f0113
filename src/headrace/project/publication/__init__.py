"""Publishes tables of the pipeline in metastores, and says where they are published."""

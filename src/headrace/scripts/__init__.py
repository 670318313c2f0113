"""Runs scripts and notebooks that are not pipelines, and provides their session."""

"""Answers that need neither Spark nor a language model: what is wrong with a pipeline, and whether it is complete."""

"""Takes tables into a pipeline with the checkpoints of the jobs that fill them, and gives them back."""

"""Scripts and notebooks that were not written as a pipeline: the ready session, and how they are run."""

"""Delta tables through Spark: create, alter, clear, commit, and count what commits changed."""

"""Makes savepoints of a pipeline, checks them, and restores them."""

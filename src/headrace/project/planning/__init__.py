"""Plans updates, backfills and replays from the graph and the storage; writes nothing."""

# The modules that other packages may import.
__all__ = ["plan_update", "resolve_selection"]

"""The warm worker: keeps the JVM of a project between verbs, and runs each verb in a process that it forks."""

# The modules that other packages may import.
__all__ = ["__main__", "client", "control", "lending", "owned_workers", "place", "traits"]

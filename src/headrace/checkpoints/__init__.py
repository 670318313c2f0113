"""Structured Streaming checkpoints in Spark's own format: offsets, state, damage; read and written without a JVM."""

# The modules that other packages may import.
__all__ = [
    "damage",
    "epochs",
    "foreign",
    "initial_offsets",
    "offsets",
    "restored",
    "state_damage",
    "state_formats",
    "state_size",
    "state_stores",
    "topic_offsets",
]

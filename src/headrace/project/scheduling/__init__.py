"""Starts the updates of a pipeline by its schedules: who decides, what is observed, and the processes that run."""

# The modules that other packages may import.
__all__ = ["child_process", "pauses", "runner", "schedule_view", "scheduler", "start_schedulers"]

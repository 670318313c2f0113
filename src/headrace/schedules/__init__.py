"""When updates start by themselves: schedules, the decision which are due, and the queue of runs. Nothing here does IO.

``cron.py`` has the times, ``definition.py`` the schedules, ``clause.py`` their form in SQL. ``state.py`` is what a
scheduler stores; ``due.py`` and ``queue.py`` are functions from one state to the next.
"""

# The modules that other packages may import.
__all__ = ["clause", "cron", "definition", "due", "queue", "state"]

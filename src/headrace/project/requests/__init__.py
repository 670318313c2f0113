"""Requests of users to the server: stored before they are answered, and run one after another as child processes.

``request.py`` has their states, ``actions.py`` what can be asked for, ``request_queue.py`` the thread that runs them.
"""

# The modules that other packages may import.
__all__ = [
    "actions",
    "plan_files",
    "request",
    "request_file",
    "request_queue",
    "request_results",
    "request_runner",
    "user_actions",
    "verb_call",
]

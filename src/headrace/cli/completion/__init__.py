"""Completes command lines in a shell. It imports almost nothing, because a user waits for it at each TAB."""

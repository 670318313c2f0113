"""The rules by subject. Each family has a tuple of them; `columns`, `stream_joins` and `watermarks` are shared."""

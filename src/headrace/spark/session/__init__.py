"""Settings, catalog entries, listeners and guards of a session, and the context of a query call."""

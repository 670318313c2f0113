"""The SQL front end: what SQL files declare, and the names and verbs in a query. SELECT is left to Spark."""

"""The SQL front end: parses declarations in SQL files, and names and verbs in queries. Spark parses SELECT."""

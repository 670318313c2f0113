"""The nouns: frozen values that every other package speaks in. No Spark, no files, no clock."""

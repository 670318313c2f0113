"""The command line: thin over ``headrace.Project``, with text for people and one JSON document for programs."""

"""What a sample of a source's records shows: measures of its columns, proposals from them, and contradictions."""

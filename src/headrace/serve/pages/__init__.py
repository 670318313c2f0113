"""What each page shows, as a document: the same for HTML and for JSON."""

"""Forms of pages: what each asks for, whether it comes from our own page, and how it becomes a request of the API."""

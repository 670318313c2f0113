"""The ledger of a file stream: which files were seen, and what was committed."""

"""The rules by subject; each module has a tuple of them."""

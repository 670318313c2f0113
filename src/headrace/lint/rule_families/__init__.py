"""The rules, by what they are about; each module has a tuple of them."""

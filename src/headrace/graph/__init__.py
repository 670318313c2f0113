"""From definitions to a resolved graph: what exists, what reads what, in which order; every problem at once."""

"""Tables of the pipeline in metastores of others: what an entry says, whose it is, and what an update changes."""

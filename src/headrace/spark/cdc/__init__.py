"""Change data capture on Spark and Delta: events brought to one form, folded into rows, merged into tables."""

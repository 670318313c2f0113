"""What rows are delivered to: formats and their options, what each needs of the rows, and how it tells repeats."""

"""Static analysis: finds code that cannot work on open-source Spark, or is a trap. It never runs the code."""

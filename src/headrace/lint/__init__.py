"""What cannot work on open-source Spark, or is a trap: found in the text of a program, which is never run."""

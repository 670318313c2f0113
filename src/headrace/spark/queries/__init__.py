"""Calls query functions and returns their DataFrames."""

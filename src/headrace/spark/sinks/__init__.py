"""Writes batches of flows to sinks: one module for each kind, and the one that hands them their batches."""

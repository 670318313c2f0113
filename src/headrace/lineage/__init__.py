"""Events in the format of OpenLineage about the runs of flows, and how they are sent."""

"""Evidence that a success criterion is met: functions from facts to a status with what was seen."""

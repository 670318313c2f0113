"""What each check looks at: functions from facts to findings, by the kind of the fault."""

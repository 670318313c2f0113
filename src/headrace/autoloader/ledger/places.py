"""Where the ledgers of a reader are, in its folder of the storage."""

LEDGERS = "_ledgers"
# If the user sets the schema location, this file of the flow contains the folder of its ledgers.
LEDGER_POINTER = "ledgers_are_in"

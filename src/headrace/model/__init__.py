"""The data model: frozen values that every other package uses. No Spark, no files, no clock."""

"""Auto Loader: files of a folder as a stream, each exactly once, with a schema that is inferred and evolves.

Here is what needs no Spark: options, schemas and where they are stored, the ledger of the files seen, how new files are
found, and how their contents become Arrow batches. ``headrace.spark.readers.auto_loader`` puts it behind
``spark.readStream.format("cloudFiles")``.

Types are Spark's JSON form of them (``"long"``, ``{"type": "struct", "fields": [...]}``), as ``StructType.jsonValue``
gives it.
"""

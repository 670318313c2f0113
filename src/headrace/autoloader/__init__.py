"""Auto Loader: reads the files of a folder as a stream, each exactly once, and infers and evolves their schema.

This package needs no Spark. It holds the options, the schema store, the ledger of seen files, file discovery, and the
readers that turn file contents into Arrow batches. ``headrace.spark.readers.auto_loader`` registers it as
``spark.readStream.format("cloudFiles")``.

Types are in Spark's JSON form (``"long"``, ``{"type": "struct", "fields": [...]}``), as in ``StructType.jsonValue``.
"""

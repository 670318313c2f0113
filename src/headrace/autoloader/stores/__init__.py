"""Stores of files: local disks, HDFS, and object stores through pyarrow's file systems.

Paths are strings: absolute on a local disk, otherwise with a scheme, such as ``s3://bucket/key``.
"""

"""Where files lie: local disks, and stores of objects behind pyarrow's file systems.

A path is text throughout: absolute on a local disk, else with its scheme, such as ``s3://bucket/key``.
"""

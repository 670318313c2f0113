"""Where a storage's files are: on a local disk, or in an object store; paths that work on both.

Above this package no module calls a file system about a storage's files. An object store has no rename, no append and
no links: what is written there is one object, and what must be decided between writers is a conditional put.
"""

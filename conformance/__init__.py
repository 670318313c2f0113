"""The code examples of documents, run against real local services, and what came of each.

``make conformance DOCS=folder`` runs all of them; ``python -m conformance --help`` says how to run less. The documents
are no part of this repository: ``conformance/documents`` has, for each, what its blocks need and what they must do.
"""

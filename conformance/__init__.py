"""Runs the code examples of documents against real local services, and checks the results.

``make conformance DOCS=folder`` runs all of them; ``python -m conformance --help`` says how to run less. The documents
are not part of this repository: ``conformance/documents`` has the inputs and expected results of their blocks.
"""

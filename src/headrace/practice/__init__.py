"""Runs what ``headrace.assistant.practice`` describes: proofs of questions, and checks of exercises."""

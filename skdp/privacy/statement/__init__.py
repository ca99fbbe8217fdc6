"""Statements of the guarantees of pipelines and ledgers."""

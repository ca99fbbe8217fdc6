"""Answers of a fitted table without further budget: rows, events, counts, inference, files."""

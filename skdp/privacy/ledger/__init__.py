"""Budgets to which releases are charged, in memory, files and databases."""

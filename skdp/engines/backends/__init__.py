"""The engines: one module for each library of tables."""

"""One module for each library of tables."""

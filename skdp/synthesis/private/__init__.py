"""The private table: its domain, cells, template and records."""

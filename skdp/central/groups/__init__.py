"""Statistics of groups, and functions of their releases."""

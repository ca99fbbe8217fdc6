"""Functions that draw the pictures and compute the tables of the site, while it is built."""

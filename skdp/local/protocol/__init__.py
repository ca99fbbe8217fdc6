"""The protocol shared by client and server: from rows to reports, and from reports to estimates."""

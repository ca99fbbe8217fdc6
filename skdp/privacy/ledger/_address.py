"""Files of ledgers, and addresses of databases: which text is which, and passwords in it."""

from __future__ import annotations

import os
import re

# Beginnings of the addresses of PostgreSQL.
SCHEMES = ("postgresql://", "postgres://")

# Parameters of an address that are not stored, and the text of an address with them.
SECRETS = (
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)
_SECRET = re.compile(
    rf"(?<!:):(?!//)[^@/?]*(?=@)|(?<=[?&])(?:{'|'.join(SECRETS)})=[^&]*(?:&|$)"
)

# Addresses with a user, and connection strings of databases, which may contain a password.
_DATABASE = re.compile(
    r"://[^/?#]*@|^\W*(?:postgres|mysql|mariadb|sqlite|mssql|oracle|jdbc|odbc|duckdb)[\w+]*:"
    r"|(?:^|[\s;?&'\"])(?:host|hostaddr|user|dbname|service|passw\w*|pwd|\w*secret|"
    r"\w*password)\s*=",
    re.IGNORECASE,
)
# A scheme of any address; a single letter may be a drive.
_SCHEME = re.compile(
    r"://|^[^\w./\\~-]*(?:[a-z][\w+.-]+:|[a-z]:(?![/\\]))", re.IGNORECASE
)


def is_database_text(text: str) -> bool:
    """Return True if a text is an address or a connection string of a database, and must not be shown."""
    return _DATABASE.search(text) is not None


def is_server_address(path: str | os.PathLike[str]) -> bool:
    """Return True for an address of PostgreSQL, and False for a file; raise an error for other addresses."""
    text = os.fspath(path)
    if isinstance(path, str) and text.startswith(SCHEMES):
        return True
    # A file with such a name would be a new budget on each machine, named by a password.
    if is_database_text(text) or _SCHEME.search(text):
        raise ValueError(
            "`path` must be a file, or an address as 'postgresql://user@host/database', "
            "got another address or a connection string. Write './' before the name of "
            "a file with ':'."
        )
    return False


def strip_secrets(address: str) -> str:
    """Return an address of PostgreSQL without passwords and other secrets."""
    return _SECRET.sub("", address).rstrip("?&")

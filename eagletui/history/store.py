"""The file of launches and runs. SQLite in WAL mode, a connection for each use.

A launch is looked up once when it is seen and written once or twice when it ends, so a connection each time costs
nothing that is felt, needs no thread of its own, and sees each time whether the file is still there. Everything here
blocks for at most some seconds; where a screen runs it is called in a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import TypeVar, cast

from eagletui.errors import HistoryError
from eagletui.history import runs
from eagletui.history.launches import EarlierLaunch, Identity, LaunchKind, LaunchRecord, PastLaunch
from eagletui.history.runs import LaunchesWanted, RequestRow, RunRecord, RunsWanted
from eagletui.history.schema import APPLICATION_ID, MIGRATIONS
from eagletui.history.transaction import writing
from eagletui.logs.advice import Before
from eagletui.logs.state import SHOWN_NAMES, PhaseName

T = TypeVar("T")
NEWEST = 20
"""Earlier launches that are looked at: older ones are of other drivers, caches and versions."""
BUSY_S = 1.0
"""How long SQLite waits for another process's write, which takes milliseconds."""
TRIES = 3
"""Some locks are refused at once whatever the busy timeout (two that make the file, or change it to WAL): try again."""
RETRY_S = 0.1
WATCHED = "watched"
"""Origin of a launch that somebody else made."""
_BETTER = ("unknown", "stopped", "crashed", "ready")
"""Outcomes: of two that saw one launch, who saw more is right."""


def default_path() -> Path:
    """Where the launches of this user are kept: history.db in eagletui's folder of XDG_DATA_HOME."""
    from platformdirs import user_data_path

    return user_data_path("eagletui", appauthor=False) / "history.db"


class History:
    """Launches and runs in a file, which is made with the first use. Every method raises HistoryError, with a sentence.

    `first`: called once before the first use, with this history. Its methods may be called from any thread.
    """

    def __init__(self, path: Path, *, first: Callable[[History], None] | None = None) -> None:
        self.path = path
        self._first = first
        self._lock = threading.RLock()

    def record(self, launch: LaunchRecord) -> None:
        """Keep a launch. The same one seen again, or by another eagletui, stays one: what is known more is added."""
        self._use(lambda connection: _write(connection, launch))

    def earlier(self, kind: LaunchKind, identity: Identity, profile: str | None = None) -> tuple[EarlierLaunch, ...]:
        """Launches of a kind on the same machine that became ready, newest first: of the same profile where one is named, with the same
        fingerprint or at least the same engine, model and TP; else of any with the same fingerprint, else of the same engine, model and TP.
        Never the launch itself."""
        return self._use(lambda connection: _earlier(connection, kind, identity, profile))

    def before(self, kind: LaunchKind, identity: Identity) -> tuple[Before, ...]:
        """How launches with the same fingerprint on the same machine ended, oldest first, for what is advised. Never the launch
        itself."""
        return self._use(lambda connection: _before(connection, kind, identity))

    def latest(self, machine: str) -> tuple[PastLaunch, ...]:
        """The last launches on a machine, newest first."""
        return self._use(lambda connection: _latest(connection, machine))

    def launches(self, which: LaunchesWanted | None = None) -> tuple[LaunchRecord, ...]:
        """Launches with their phases, newest first."""
        return self._use(lambda connection: runs.launches(connection, which or LaunchesWanted()))

    def record_run(self, run: RunRecord, requests: Sequence[RequestRow] = ()) -> bool:
        """Keep a run with its requests. One with the same id is written anew, and keeps its note, its tags and that it is a baseline. False, and
        nothing is done: another one of the same `source` is kept already."""
        return self._use(lambda connection: runs.write(connection, run, requests))

    def runs(self, which: RunsWanted | None = None) -> tuple[RunRecord, ...]:
        """Runs, newest first."""
        return self._use(lambda connection: runs.wanted(connection, which or RunsWanted()))

    def run(self, name: str) -> RunRecord:
        """The run with this id, or the only one whose id begins so. Raises UsageError for none and for several."""
        return self._use(lambda connection: runs.named(connection, name))

    def requests(self, run: str) -> tuple[RequestRow, ...]:
        """Of a run, by its whole id, in the order in which they were kept."""
        return self._use(lambda connection: runs.requests(connection, run))

    def baselines(self) -> tuple[RunRecord, ...]:
        """Runs that others are held against; the one that was made so last comes first."""
        return self._use(runs.baselines)

    def set_baseline(self, run: str, *, off: Sequence[str] = ()) -> None:
        """From now on it is one, and those of `off` are none; "" for `run`: only that. Whole ids."""
        self._use(lambda connection: runs.set_baseline(connection, run, off))

    def set_note(self, run: str, text: str) -> None:
        """What a person writes about a run, by its whole id; "" takes it away."""
        self._use(lambda connection: runs.set_note(connection, run, text))

    def tag(self, run: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Give a run, by its whole id, tags and take some away."""
        self._use(lambda connection: runs.tag(connection, run, add, remove))

    def machine_of(self, node: str) -> str | None:
        """The machine that a node's name meant last; None where nothing of it is kept."""
        return self._use(lambda connection: runs.machine_of(connection, node))

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._first is not None:
                first, self._first = self._first, None
                first(self)
            for left in reversed(range(TRIES)):
                try:
                    with closing(self._open()) as connection:
                        return work(connection)
                except sqlite3.Error as error:
                    busy = _is_busy(error)
                    if busy and left:
                        time.sleep(RETRY_S)
                        continue
                    raise HistoryError(self._sentence(error), passing=busy) from None
                except OSError as error:
                    raise HistoryError(
                        f"The history cannot be used: {self.path} cannot be opened ({error.strerror or error})"
                    ) from None
            raise AssertionError("unreachable")

    def _sentence(self, error: sqlite3.Error) -> str:
        if _is_busy(error):
            return f"The history was not written: another program holds {self.path}"
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
            return f"The history cannot be used: {self.path} is damaged ({error}); move it away to begin a new one"
        return f"The history cannot be used: {self.path}: {error}"

    def _open(self) -> sqlite3.Connection:
        """A connection to the file, made and brought up to date where needed. Raises sqlite3.Error, OSError, HistoryError."""
        _make_private(self.path)
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._bring_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up(self, connection: sqlite3.Connection) -> None:
        version = _pragma(connection, "user_version")
        if version == len(MIGRATIONS):
            return
        self._refuse_others(connection, version)
        if version == 0:
            # It stays with the file. Where shared memory does not work (some network folders) SQLite keeps its old way.
            connection.execute("PRAGMA journal_mode = WAL")
        with writing(connection):
            version = _pragma(connection, "user_version")  # another one may have been quicker
            self._refuse_others(connection, version)
            for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _refuse_others(self, connection: sqlite3.Connection, version: int) -> None:
        if _pragma(connection, "application_id") != APPLICATION_ID and (
            version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        ):
            raise HistoryError(f"The history cannot be used: {self.path} is a file of another program")
        if version > len(MIGRATIONS):
            raise HistoryError(
                f"The history cannot be used: {self.path} was made by a newer eagletui (its version {version}, "
                f"ours {len(MIGRATIONS)}); it is left as it is"
            )


def _make_private(path: Path) -> None:
    """The folder 0700 and the file 0600: a command line is nobody else's business, though its secrets are masked."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # another's folder; the file is private anyway
        if path.parent.stat().st_mode & 0o077:
            path.parent.chmod(0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


_COLUMNS = (
    "key", "machine", "node", "engine", "model", "tp", "fingerprint", "flags", "command", "started",
    "outcome", "ready_s", "lead_s", "diagnosis", "ended", "weights_read", "weights_size", "cold", "origin", "args",
    "profile", "variant", "record", "who",
)  # fmt: skip
_LATER = (
    "model",
    "tp",
    "lead_s",
    "diagnosis",
    "ended",
    "weights_read",
    "weights_size",
    "cold",
    "args",
    "profile",
    "variant",
    "record",
    "who",
)
"""What a second look may add to a launch."""


def _row(launch: LaunchRecord) -> dict[str, object]:
    kind = launch.kind
    return {
        "key": launch.identity.key,
        "machine": launch.identity.machine,
        "node": launch.node,
        "engine": kind.engine,
        "model": kind.model,
        "tp": kind.tp,
        "fingerprint": kind.fingerprint,
        "flags": json.dumps(dict(kind.flags)),
        "command": json.dumps(launch.command),
        "started": launch.started.astimezone(UTC).isoformat(timespec="milliseconds"),
        "outcome": launch.outcome,
        "ready_s": launch.ready_s,
        "lead_s": launch.lead_s,
        "diagnosis": launch.diagnosis,
        "ended": launch.ended,
        "weights_read": launch.read,
        "weights_size": launch.size,
        "cold": None if launch.cold is None else int(launch.cold),
        "origin": launch.origin,
        "args": json.dumps(dict(launch.args)) if launch.args else None,
        "profile": launch.profile,
        "variant": launch.variant,
        "record": launch.record,
        "who": launch.who,
    }


def _write(connection: sqlite3.Connection, launch: LaunchRecord) -> None:
    row = _row(launch)
    with writing(connection):
        known = connection.execute("SELECT id, outcome FROM launches WHERE key = ?", (row["key"],)).fetchone()
        if known is None:
            names = ", ".join(_COLUMNS)
            cursor = connection.execute(
                f"INSERT INTO launches ({names}) VALUES ({', '.join(':' + name for name in _COLUMNS)})",  # noqa: S608 - our own names
                row,
            )
            _write_phases(connection, cast("int", cursor.lastrowid), launch)
            return
        number, outcome = known
        added = ", ".join(f"{name} = coalesce(:{name}, {name})" for name in _LATER)
        connection.execute(f"UPDATE launches SET {added} WHERE key = :key", row)  # noqa: S608 - our own names
        if launch.origin != WATCHED:  # who made it knows more than who saw it
            connection.execute("UPDATE launches SET origin = :origin WHERE key = :key", row)
        if _BETTER.index(launch.outcome) > _BETTER.index(outcome):
            connection.execute("UPDATE launches SET outcome = :outcome, ready_s = :ready_s WHERE key = :key", row)
            _write_phases(connection, number, launch)


def _write_phases(connection: sqlite3.Connection, number: int, launch: LaunchRecord) -> None:
    connection.execute("DELETE FROM phases WHERE launch = ?", (number,))
    connection.executemany(
        "INSERT INTO phases (launch, position, name, seconds, ranks) VALUES (?, ?, ?, ?, ?)",
        [
            (number, position, phase.name, phase.seconds, json.dumps(dict(phase.ranks)) if phase.ranks else None)
            for position, phase in enumerate(launch.phases)
        ],
    )


_ALIKE = """
SELECT id, ready_s, lead_s, weights_size, cold FROM launches
WHERE machine = ? AND {} AND outcome = 'ready' AND ready_s IS NOT NULL AND key <> ? ORDER BY started DESC LIMIT ?
"""


def _earlier(
    connection: sqlite3.Connection, kind: LaunchKind, identity: Identity, profile: str | None
) -> tuple[EarlierLaunch, ...]:
    looks: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("fingerprint = ?", (kind.fingerprint,)),
        ("engine = ? AND model IS ? AND tp IS ?", (kind.engine, kind.model, kind.tp)),
    )
    if profile is not None:
        looks = (*((f"profile = ? AND {like}", (profile, *values)) for like, values in looks), *looks)
    for condition, values in looks:
        rows = connection.execute(
            _ALIKE.format(condition),
            (identity.machine, *values, identity.key, NEWEST),
        ).fetchall()
        if rows:
            return tuple(
                EarlierLaunch(ready, _phases(connection, number), lead, size, None if cold is None else bool(cold))
                for number, ready, lead, size, cold in rows
            )
    return ()


def _phases(connection: sqlite3.Connection, number: int) -> dict[PhaseName, float]:
    rows = connection.execute(
        "SELECT name, seconds FROM phases WHERE launch = ? AND seconds IS NOT NULL ORDER BY position", (number,)
    )
    return {cast("PhaseName", name): float(seconds) for name, seconds in rows if name in SHOWN_NAMES}


def _before(connection: sqlite3.Connection, kind: LaunchKind, identity: Identity) -> tuple[Before, ...]:
    rows = connection.execute(
        "SELECT outcome, diagnosis, args FROM launches WHERE machine = ? AND fingerprint = ? AND key <> ? "
        "AND outcome IN ('ready', 'crashed') ORDER BY started DESC LIMIT ?",
        (identity.machine, kind.fingerprint, identity.key, NEWEST),
    ).fetchall()
    return tuple(
        Before(code, json.loads(args) if args else {}, outcome == "ready") for outcome, code, args in reversed(rows)
    )


def _latest(connection: sqlite3.Connection, machine: str) -> tuple[PastLaunch, ...]:
    rows = connection.execute(
        "SELECT key, engine, fingerprint, command, outcome, diagnosis, ended, profile, variant, ready_s FROM launches "
        "WHERE machine = ? ORDER BY started DESC LIMIT ?",
        (machine, NEWEST),
    ).fetchall()
    return tuple(
        PastLaunch(key, engine, fingerprint, tuple(json.loads(command)), outcome, *more)
        for key, engine, fingerprint, command, outcome, *more in rows
    )

"""Runs in the file, and launches as a list: what is written and asked, by connection. What a run came to is text here, made and read by who
measures; columns are what is asked for."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast

from eagletui.errors import UsageError
from eagletui.history.launches import Ended, Identity, LaunchKind, LaunchRecord, Outcome, PhaseTime
from eagletui.history.transaction import writing
from eagletui.logs.state import SHOWN_NAMES, PhaseName

Origin = Literal["measured", "imported"]
ID_LENGTH = 6
"""Letters of a run's id: a thousand million of them, and still quickly typed."""
_FIRST = "abcdefghjkmnpqrstvwxyz"
_LETTERS = "0123456789" + _FIRST
"""Without i, l, o and u, as Crockford has them: none is taken for another. The first one is a letter: no id looks like a number or an option."""
_NAMED_AT_MOST = 5
"""Ids that a sentence lists."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is kept. `began`: seconds since the epoch. `machine`: as Identity.machine, "" where it is not known. `launch`: key of its launch.
    `tok_s`: its rate, for sorting. `body`: all of it, JSON text. `source`: of an import, what tells it from others. `baseline_since`: when it was
    made a baseline, None: it is none."""

    id: str
    machine: str
    began: float
    body: str
    node: str | None = None
    engine: str | None = None
    model: str | None = None
    profile: str | None = None
    variant: str | None = None
    launch: str | None = None
    tok_s: float | None = None
    origin: Origin = "measured"
    source: str | None = None
    note: str = ""
    tags: tuple[str, ...] = ()
    baseline_since: float | None = None


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request of a run, as bench.outcome.Row has it."""

    repeat: int
    number: int
    sent_s: float
    ttft_ms: float | None
    e2e_ms: float | None
    input_tokens: int | None
    output_tokens: int
    source: str
    status: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RunsWanted:
    """Which runs. None: whatever it is. `model`: a part of its name, in any case; `since`: seconds since the epoch; `launch`: key."""

    machine: str | None = None
    node: str | None = None
    model: str | None = None
    profile: str | None = None
    since: float | None = None
    tag: str | None = None
    launch: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchesWanted:
    """Which launches, as RunsWanted."""

    machine: str | None = None
    node: str | None = None
    model: str | None = None
    profile: str | None = None
    since: float | None = None
    limit: int | None = None


def new_id() -> str:
    """An id that no run has, but for a chance in a thousand million."""
    return secrets.choice(_FIRST) + "".join(secrets.choice(_LETTERS) for _ in range(ID_LENGTH - 1))


# --- writing


def write(connection: sqlite3.Connection, run: RunRecord, requests: Sequence[RequestRow]) -> bool:
    """See History.record_run."""
    with writing(connection):
        if run.source is not None:
            known = connection.execute("SELECT id FROM runs WHERE source = ?", (run.source,)).fetchone()
            if known is not None and known[0] != run.id:
                return False
        connection.execute(
            "INSERT INTO runs (id, machine, node, engine, model, profile, variant, launch, began, tok_s, body, origin, source, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET machine = excluded.machine, "
            "node = excluded.node, engine = excluded.engine, model = excluded.model, profile = excluded.profile, "
            "variant = excluded.variant, launch = excluded.launch, began = excluded.began, tok_s = excluded.tok_s, "
            "body = excluded.body, origin = excluded.origin, source = excluded.source",
            (
                run.id, run.machine, run.node, run.engine, run.model, run.profile, run.variant, run.launch, _stamp(run.began),
                run.tok_s, run.body, run.origin, run.source, run.note,
            ),
        )  # fmt: skip
        _add_tags(connection, run.id, run.tags)
        connection.execute("DELETE FROM requests WHERE run = ?", (run.id,))
        connection.executemany(
            "INSERT INTO requests (run, position, repeat, number, sent_s, ttft_ms, e2e_ms, input_tokens, output_tokens, source, "
            "status, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    run.id, position, one.repeat, one.number, one.sent_s, one.ttft_ms, one.e2e_ms, one.input_tokens,
                    one.output_tokens, one.source, one.status, one.error,
                )
                for position, one in enumerate(requests)
            ],
        )  # fmt: skip
    return True


def set_baseline(connection: sqlite3.Connection, run: str, off: Sequence[str]) -> None:
    """See History.set_baseline."""
    with writing(connection):
        connection.executemany("UPDATE runs SET baseline_since = NULL WHERE id = ?", [(one,) for one in off])
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        connection.execute("UPDATE runs SET baseline_since = ? WHERE id = ?", (now, run))


def set_note(connection: sqlite3.Connection, run: str, text: str) -> None:
    """See History.set_note."""
    with writing(connection):
        connection.execute("UPDATE runs SET note = ? WHERE id = ?", (text, run))


def tag(connection: sqlite3.Connection, run: str, add: Sequence[str], remove: Sequence[str]) -> None:
    """See History.tag."""
    with writing(connection):
        connection.executemany("DELETE FROM tags WHERE run = ? AND tag = ?", [(run, one) for one in remove])
        _add_tags(connection, run, add)


def _add_tags(connection: sqlite3.Connection, run: str, tags: Sequence[str]) -> None:
    connection.executemany("INSERT OR IGNORE INTO tags (run, tag) VALUES (?, ?)", [(run, one) for one in tags])


# --- asking

_RUN = (
    "SELECT id, machine, began, body, node, engine, model, profile, variant, launch, tok_s, origin, source, note, "
    "(SELECT json_group_array(tag) FROM tags WHERE run = id), baseline_since FROM runs"
)

_LAUNCH = (
    "SELECT id, key, machine, node, engine, model, tp, fingerprint, flags, command, started, outcome, ready_s, lead_s, diagnosis, "
    "ended, weights_read, weights_size, cold, origin, args, profile, variant, record, who FROM launches"
)


def wanted(connection: sqlite3.Connection, which: RunsWanted) -> tuple[RunRecord, ...]:
    """See History.runs."""
    conditions, values = _conditions(which, "began")
    for condition, value in (
        ("launch = ?", which.launch),
        ("EXISTS (SELECT 1 FROM tags WHERE run = id AND tag = ?)", which.tag),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    rows = connection.execute(
        f"{_RUN} {_where(conditions)} ORDER BY began DESC, id LIMIT ?", (*values, _limit(which.limit))
    )
    return tuple(map(_run, rows))


def named(connection: sqlite3.Connection, name: str) -> RunRecord:
    """See History.run."""
    asked = name.strip().lower()
    rows = connection.execute(
        f"{_RUN} WHERE substr(id, 1, ?1) = ?2 ORDER BY id <> ?2, began DESC LIMIT ?3",
        (len(asked), asked, _NAMED_AT_MOST + 1),
    ).fetchall()
    if not asked or not rows:
        raise UsageError(f"there is no run {name!r}; `eagletui history` lists those that are kept")
    exact = [row for row in rows if row[0] == asked]
    if len(rows) > 1 and not exact:
        told = ", ".join(row[0] for row in rows[:_NAMED_AT_MOST]) + (" …" if len(rows) > _NAMED_AT_MOST else "")
        raise UsageError(f"several runs begin with {name!r}: {told}")
    return _run((exact or rows)[0])


def baselines(connection: sqlite3.Connection) -> tuple[RunRecord, ...]:
    """See History.baselines."""
    return tuple(map(_run, connection.execute(f"{_RUN} WHERE baseline_since IS NOT NULL ORDER BY baseline_since DESC")))


def requests(connection: sqlite3.Connection, run: str) -> tuple[RequestRow, ...]:
    """See History.requests."""
    rows = connection.execute(
        "SELECT repeat, number, sent_s, ttft_ms, e2e_ms, input_tokens, output_tokens, source, status, error FROM requests "
        "WHERE run = ? ORDER BY position",
        (run,),
    )
    return tuple(RequestRow(*row) for row in rows)


def machine_of(connection: sqlite3.Connection, node: str) -> str | None:
    """See History.machine_of."""
    row = connection.execute(
        "SELECT machine FROM (SELECT machine, started AS at FROM launches WHERE node = ?1 "
        "UNION ALL SELECT machine, began FROM runs WHERE node = ?1 AND machine <> '') ORDER BY at DESC LIMIT 1",
        (node,),
    ).fetchone()
    return None if row is None else str(row[0])


def launches(connection: sqlite3.Connection, which: LaunchesWanted) -> tuple[LaunchRecord, ...]:
    """See History.launches."""
    conditions, values = _conditions(which, "started")
    rows = connection.execute(
        f"{_LAUNCH} {_where(conditions)} ORDER BY started DESC, id DESC LIMIT ?", (*values, _limit(which.limit))
    ).fetchall()
    return tuple(found for row in rows if (found := _launch(connection, row)) is not None)


def _conditions(which: RunsWanted | LaunchesWanted, time: str) -> tuple[list[str], list[object]]:
    asked: tuple[tuple[str, object], ...] = (
        ("machine = ?", which.machine),
        ("node = ?", which.node),
        ("instr(lower(model), lower(?)) > 0", which.model),
        ("profile = ?", which.profile),
        (f"{time} >= ?", None if which.since is None else _stamp(which.since)),
    )
    given = [(condition, value) for condition, value in asked if value is not None]
    return [condition for condition, _ in given], [value for _, value in given]


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _limit(limit: int | None) -> int:
    return -1 if limit is None else limit


def _stamp(at: float) -> str:
    """As launches have it: it sorts as text."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _run(row: Sequence[object]) -> RunRecord:
    (run, machine, began, body, *more, tags, since) = cast("tuple[str, ...]", tuple(row))
    node, engine, model, profile, variant, launch, tok_s, origin, source, note = more
    return RunRecord(
        run, machine, datetime.fromisoformat(began).timestamp(), body, node, engine, model, profile, variant, launch,
        cast("float | None", tok_s), cast("Origin", origin), source, note, tuple(sorted(json.loads(tags))),
        None if since is None else datetime.fromisoformat(since).timestamp(),
    )  # fmt: skip


def _launch(connection: sqlite3.Connection, row: Sequence[object]) -> LaunchRecord | None:
    """None for one whose key nothing here wrote."""
    (
        number, key, machine, node, engine, model, tp, fingerprint, flags, command, started, outcome, ready_s, lead_s, diagnosis, ended,
        read, size, cold, origin, args, profile, variant, record, who,
    ) = row  # fmt: skip
    identity = _identity(str(key), str(machine))
    if identity is None:
        return None
    phases = connection.execute(
        "SELECT name, seconds, ranks FROM phases WHERE launch = ? ORDER BY position", (number,)
    ).fetchall()
    return LaunchRecord(
        identity=identity,
        node=str(node),
        kind=LaunchKind(
            str(engine), cast("str | None", model), cast("int | None", tp), str(fingerprint),
            tuple((str(name), str(value)) for name, value in json.loads(str(flags)).items()),
        ),
        command=tuple(json.loads(str(command))),
        started=datetime.fromisoformat(str(started)),
        outcome=cast("Outcome", outcome),
        phases=tuple(
            PhaseTime(cast("PhaseName", name), seconds, tuple(json.loads(ranks).items()) if ranks else ())
            for name, seconds, ranks in phases
            if name in SHOWN_NAMES
        ),
        ready_s=cast("float | None", ready_s),
        lead_s=cast("float | None", lead_s),
        diagnosis=cast("str | None", diagnosis),
        ended=cast("Ended | None", ended),
        read=cast("int | None", read),
        size=cast("int | None", size),
        cold=None if cold is None else bool(cold),
        args=tuple(json.loads(str(args)).items()) if args else (),
        origin=str(origin),
        profile=cast("str | None", profile),
        variant=cast("str | None", variant),
        record=cast("str | None", record),
        who=cast("str | None", who),
    )  # fmt: skip


def _identity(key: str, machine: str) -> Identity | None:
    """Back from Identity.key; a machine's name may have blanks in it."""
    parts = key.removeprefix(machine).split()
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return Identity(machine, None if parts[0] == "-" else parts[0], int(parts[1]), int(parts[2]))

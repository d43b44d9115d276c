"""The tables, and how a file of an older eagletui becomes one of this. Forward only: what a newer one made is left alone.

Durations are REAL seconds, times ISO 8601 text in UTC, lists and pairs JSON text, unknown NULL.
"""

from __future__ import annotations

APPLICATION_ID = 0x6541_676C
"""PRAGMA application_id of our files: the file of another program is never touched."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE launches (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            machine TEXT NOT NULL,
            node TEXT NOT NULL,
            engine TEXT NOT NULL,
            model TEXT,
            tp INTEGER,
            fingerprint TEXT NOT NULL,
            flags TEXT NOT NULL,
            command TEXT NOT NULL,
            started TEXT NOT NULL,
            outcome TEXT NOT NULL CHECK (outcome IN ('ready', 'crashed', 'stopped', 'unknown')),
            ready_s REAL,
            lead_s REAL,
            diagnosis TEXT,
            ended TEXT,
            weights_read INTEGER,
            weights_size INTEGER,
            cold INTEGER,
            origin TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE phases (
            launch INTEGER NOT NULL REFERENCES launches (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            name TEXT NOT NULL,
            seconds REAL,
            ranks TEXT,
            PRIMARY KEY (launch, position)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX launches_alike ON launches (machine, fingerprint, started)",
        "CREATE INDEX launches_like ON launches (machine, engine, model, tp, started)",
    ),
    ("ALTER TABLE launches ADD COLUMN args TEXT",),
    ("ALTER TABLE launches ADD COLUMN profile TEXT", "ALTER TABLE launches ADD COLUMN variant TEXT"),
    (
        "ALTER TABLE launches ADD COLUMN record TEXT",
        "ALTER TABLE launches ADD COLUMN who TEXT",
        "CREATE INDEX launches_of_profile ON launches (machine, profile, started)",
    ),
    (
        """
        CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            machine TEXT NOT NULL,
            node TEXT,
            engine TEXT,
            model TEXT,
            profile TEXT,
            variant TEXT,
            launch TEXT,
            began TEXT NOT NULL,
            tok_s REAL,
            body TEXT NOT NULL,
            origin TEXT NOT NULL,
            source TEXT UNIQUE,
            note TEXT NOT NULL DEFAULT '',
            baseline_since TEXT
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE requests (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            repeat INTEGER NOT NULL,
            number INTEGER NOT NULL,
            sent_s REAL NOT NULL,
            ttft_ms REAL,
            e2e_ms REAL,
            input_tokens INTEGER,
            output_tokens INTEGER NOT NULL,
            source TEXT NOT NULL,
            status INTEGER,
            error TEXT,
            PRIMARY KEY (run, position)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE tags (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
            tag TEXT NOT NULL,
            PRIMARY KEY (run, tag)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX runs_in_time ON runs (began)",
        "CREATE INDEX runs_of_launch ON runs (launch)",
        "CREATE INDEX runs_baseline ON runs (baseline_since) WHERE baseline_since IS NOT NULL",
    ),
)
"""Statements by the version that they lead to, from 1: each is carried out once, in one transaction with its number
(PRAGMA user_version). One that was released is never changed; what changes is added behind it."""

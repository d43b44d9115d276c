"""known_hosts matching, by table and against ssh-keygen."""

from __future__ import annotations

import base64
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.nodes.known_hosts import (
    Verdict,
    fingerprint,
    key_type,
    lookup,
    lookup_name,
    new_line,
    order_algorithms,
)
from tests.requires import require


def blob(kind: str, seed: int) -> bytes:
    """A key in wire format, as far as known_hosts looks at it."""
    return b"".join(struct.pack(">I", len(part)) + part for part in (kind.encode(), bytes([seed]) * 32))


A, B, RSA = blob("ssh-ed25519", 1), blob("ssh-ed25519", 2), blob("ssh-rsa", 3)


def line(names: str, key: bytes, marker: str = "") -> str:
    return f"{marker} {names} {key_type(key)} {base64.b64encode(key).decode()} comment here".strip()


A64 = base64.b64encode(A).decode()
HASHED = new_line("gpu", A, b"s" * 20)
HASHED_PORT = new_line("[gpu]:2222", A, b"t" * 20)

ROWS = [
    # names or lines, host, port, alias, key shown, verdict, line number
    ([line("gpu", A)], "gpu", 22, None, A, Verdict.KNOWN, 1),
    ([line("gpu", A)], "GPU", 22, None, A, Verdict.KNOWN, 1),
    ([line("GPU", A)], "gpu", 22, None, A, Verdict.KNOWN, 1),
    ([line("gpu", A)], "gpu", 22, None, B, Verdict.CHANGED, 1),
    ([line("other", A)], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    ([], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    (["# gpu", "", line("x,gpu,10.0.0.1", A)], "10.0.0.1", 22, None, A, Verdict.KNOWN, 3),
    ([line("[gpu]:2222", A)], "gpu", 2222, None, A, Verdict.KNOWN, 1),
    ([line("[gpu]:2222", A)], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    ([line("[gpu]:2222", A)], "gpu", 2222, None, B, Verdict.CHANGED, 1),
    # Without its port an entry can confirm a key, but another key is not a changed one: ports may be other machines.
    ([line("gpu", A)], "gpu", 2222, None, A, Verdict.KNOWN, 1),
    ([line("gpu", A)], "gpu", 2222, None, B, Verdict.UNKNOWN, None),
    ([line("gpu", B), line("[gpu]:2222", A)], "gpu", 2222, None, A, Verdict.KNOWN, 2),
    ([HASHED], "gpu", 22, None, A, Verdict.KNOWN, 1),
    ([HASHED], "gpu", 22, None, B, Verdict.CHANGED, 1),
    ([HASHED], "gpv", 22, None, A, Verdict.UNKNOWN, None),
    ([HASHED_PORT], "gpu", 2222, None, A, Verdict.KNOWN, 1),
    ([HASHED_PORT], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    ([line("*.example,!bad.example", A)], "good.example", 22, None, A, Verdict.KNOWN, 1),
    ([line("*.example,!bad.example", A)], "bad.example", 22, None, A, Verdict.UNKNOWN, None),
    ([line("!bad.example,*.example", A)], "bad.example", 22, None, A, Verdict.UNKNOWN, None),
    ([line("gpu?", A)], "gpu7", 22, None, A, Verdict.KNOWN, 1),
    ([line("gpu?", A)], "gpu77", 22, None, A, Verdict.UNKNOWN, None),
    ([line("[*]:2222", A)], "gpu", 2222, None, A, Verdict.KNOWN, 1),
    ([line("g[pu]", A)], "gp", 22, None, A, Verdict.UNKNOWN, None),
    ([line("gpu", A), line("gpu", B)], "gpu", 22, None, B, Verdict.KNOWN, 2),
    ([line("gpu", A)], "gpu", 22, None, RSA, Verdict.CHANGED, 1),
    ([line("gpu", A), line("*", A, "@revoked")], "gpu", 22, None, A, Verdict.REVOKED, 2),
    ([line("gpu", A), line("gpu", B, "@revoked")], "gpu", 22, None, A, Verdict.KNOWN, 1),
    ([line("gpu", B, "@revoked")], "gpu", 2222, None, B, Verdict.REVOKED, 1),
    ([line("gpu", A, "@cert-authority")], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    ([line("gpu", A, "@nonsense")], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    ([line("alias", A)], "gpu", 2222, "Alias", A, Verdict.KNOWN, 1),
    ([line("gpu", A)], "gpu", 22, "alias", A, Verdict.UNKNOWN, None),
    (["gpu ssh-ed25519 !!!", "gpu", "gpu ssh-rsa " + A64, line("gpu", A)], "gpu", 22, None, A, Verdict.KNOWN, 4),
    (["|1|x|y ssh-ed25519 " + A64, "|2|a|b ssh-ed25519 " + A64], "gpu", 22, None, A, Verdict.UNKNOWN, None),
    ([line("fe80::1", A)], "fe80::1", 22, None, A, Verdict.KNOWN, 1),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_verdicts(row: tuple[list[str], str, int, str | None, bytes, Verdict, int | None]) -> None:
    lines, host, port, alias, shown, verdict, number = row
    found = lookup([("known", "\n".join(lines))], host, port, alias).judge(shown)
    assert found.verdict is verdict
    assert (found.entry.line if found.entry else None) == number


def test_all_files_count_and_the_entry_says_where() -> None:
    known = lookup([("one", "\n" + line("gpu", A)), ("two", line("gpu", RSA))], "gpu", 22)
    assert known.judge(RSA).verdict is Verdict.KNOWN
    changed = known.judge(B)
    assert changed.verdict is Verdict.CHANGED
    assert changed.entry is not None
    assert changed.entry.place == "one:2"
    assert known.key_types == ("ssh-ed25519", "ssh-rsa")


def test_only_a_newline_ends_a_line() -> None:
    """As ssh parts them: a comment with what Unicode or Python takes for one hides nothing and shifts no number."""
    text = line("other", B) + " a comment\x0b\x85\u2028gpu ssh-ed25519 " + A64 + "\r\n" + line("gpu", B)
    known = lookup([("f", text)], "gpu", 22)
    assert [entry.line for entry in known.entries] == [2]
    assert known.judge(A).verdict is Verdict.CHANGED


def test_authorities() -> None:
    known = lookup([("f", "\n".join([line("*.example", A, "@cert-authority"), line("x.example", B)]))], "x.example", 22)
    assert known.has_authority
    assert known.key_types == ("ssh-ed25519",)
    assert known.judge_authority(A).verdict is Verdict.KNOWN
    assert known.judge_authority(B).verdict is Verdict.UNKNOWN
    revoked = lookup([("f", "\n".join([line("*", A, "@cert-authority"), line("*", A, "@revoked")]))], "x", 22)
    assert revoked.judge_authority(A).verdict is Verdict.REVOKED


def test_known_types_are_asked_for_first() -> None:
    offered = ("ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    rsa = lookup([("f", line("gpu", RSA))], "gpu", 22)
    assert order_algorithms(offered, rsa) == ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519", "ecdsa-sha2-nistp256")
    authority = lookup([("f", line("gpu", A, "@cert-authority"))], "gpu", 22)
    assert order_algorithms(offered, authority) == offered
    assert order_algorithms(offered, lookup([], "gpu", 22)) == offered[1:]


def test_a_pattern_cannot_make_matching_slow() -> None:
    names = "*a" * 40 + "," + "*" * 3000
    assert lookup([("f", line(names, A))], "b" * 60, 22).judge(A).verdict is Verdict.KNOWN


@given(st.text(max_size=200), st.binary(max_size=40))
@settings(max_examples=50)
def test_any_file_can_be_read(text: str, key: bytes) -> None:
    known = lookup([("f", text)], "gpu", 2222)
    assert known.judge(key).verdict in Verdict
    assert known.judge_authority(key).verdict in Verdict


def real_key(folder: Path, name: str) -> tuple[str, bytes]:
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, timeout=30)
    public = Path(f"{path}.pub").read_text().split()
    return f"{public[0]} {public[1]}", base64.b64decode(public[1])


def test_like_ssh_keygen(tmp_path: Path) -> None:
    """The same entries are found as `ssh-keygen -F` finds, in a plain file and in the file that `ssh-keygen -H` made
    of it."""
    require("ssh-keygen")
    text, key = real_key(tmp_path, "key")
    known = tmp_path / "known"
    names = ["gpu", "[gpu]:2222", "a,b", "*.example,!no.example", "::1", "10.0.0.?"]
    known.write_text("".join(f"{n} {text}\n" for n in names))
    hashed = tmp_path / "hashed"
    hashed.write_text(known.read_text())
    subprocess.run(["ssh-keygen", "-H", "-f", hashed], check=True, capture_output=True, timeout=30)
    assert "|1|" in hashed.read_text()
    asked = [
        ("gpu", 22),
        ("gpu", 2222),
        ("b", 22),
        ("x.example", 22),
        ("no.example", 22),
        ("::1", 22),
        ("10.0.0.9", 22),
        ("nobody", 22),
    ]
    for file in (known, hashed):
        for host, port in asked:
            done = subprocess.run(
                ["ssh-keygen", "-F", lookup_name(host, port), "-f", file],
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
            )
            theirs = [
                int(row.split("line ")[1].split()[0]) for row in done.stdout.splitlines() if row.startswith("# Host")
            ]
            ours = [e.line for e in lookup([(str(file), file.read_text())], host, port).entries]
            assert ours == theirs, (file, host, port)
    listed = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True, timeout=30
    )
    assert fingerprint(key) in listed.stdout


def test_new_lines_are_found_by_ssh_keygen(tmp_path: Path) -> None:
    require("ssh-keygen")
    _, key = real_key(tmp_path, "key")
    known = tmp_path / "known"
    known.write_text(new_line("[gpu]:2222", key, b"0" * 20) + new_line("plain", key))
    for name in ("[gpu]:2222", "plain"):
        subprocess.run(["ssh-keygen", "-F", name, "-f", known], check=True, capture_output=True, timeout=30)

"""Keyboard-interactive as an administrator sets it up: a real sshd whose PAM asks twice, after a key.

sshd's PAM service is named as its program, so a copy of the program has rules of its own and the machine's are left
alone. Newer sshds ask PAM from another program; there the test is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagletui.errors import AuthError
from eagletui.nodes.ssh import SshNode
from tests.nodes.test_login import PASSWORD, Person, locked, refused, set_password, with_key, works
from tests.requires import require
from tests.sshd import Sshd, start_sshd

RULES = """auth optional pam_echo.so Two questions follow.
auth required pam_unix.so
auth required pam_stress.so
account required pam_permit.so
session required pam_permit.so
"""
"""A second module of PAM's own that asks anew (pam_unix takes an earlier module's password); it is content with any
answer.
"""


@pytest.fixture
def pam_server(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, open_folder: Path) -> Iterator[Sshd]:
    for name in ("root", "chpasswd", "usermod"):
        require(name)
    program = Path(require("sshd"))
    modules = [*Path("/lib").glob("*/security/pam_stress.so"), *Path("/usr").glob("lib*/**/security/pam_stress.so")]
    if not modules or not Path("/etc/pam.d").is_dir() or b"pam_start" not in program.read_bytes():
        pytest.skip("needs pam_stress, and an sshd that asks PAM itself")
    copy = open_folder / f"etui-sshd-{os.getpid()}"
    shutil.copy(program, copy)
    rules = Path("/etc/pam.d") / copy.name
    rules.write_text(RULES)
    set_password(sshd_users["bash"], PASSWORD)
    options = ("UsePAM yes", "KbdInteractiveAuthentication yes", "AuthenticationMethods publickey,keyboard-interactive")
    try:
        prefix = ("sh", "-c", f'shift; exec {copy} "$@"', "sh")
        with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, options, prefix=prefix) as server:
            yield server
    finally:
        rules.unlink()
        subprocess.run(["usermod", "-p", "*", sshd_users["bash"]], check=True, timeout=30)


async def test_a_key_and_then_two_questions(pam_server: Sshd, tmp_path: Path) -> None:
    key = locked(pam_server.key, tmp_path / "key", "open sesame")
    config = with_key(pam_server, "pam", key)
    person = Person("open sesame", [PASSWORD], ["anything"])
    node = SshNode(pam_server.target(), config_file=config, prompter=person)
    await works(node)
    assert node.asked_person
    assert person.labels == [f"Passphrase of {key}", "Password:", "STRESS Password:"]
    assert "Two questions follow." in person.questions[1].said
    assert all(f.secret and f.by_server for q in person.questions[1:] for f in q.fields)


async def test_wrong_answers(pam_server: Sshd) -> None:
    config = with_key(pam_server, "pam_wrong", pam_server.key, lines=("NumberOfPasswordPrompts 1",))
    error = await refused(SshNode(pam_server.target(), config_file=config, prompter=Person(["not it"], ["anything"])))
    assert isinstance(error, AuthError)
    assert not error.needs_person
    assert "answers to its questions were not accepted" in str(error)
    nobody = await refused(SshNode(pam_server.target(), config_file=config))
    assert isinstance(nobody, AuthError)
    assert nobody.needs_person

"""Logins that need a person, against a real sshd: what is asked, of whom, and what an answer does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import asyncssh
import pytest

from eagletui.errors import AuthError, ConnectError, HostKeyError, LoginCancelledError, NodeError
from eagletui.nodes.host_check import FileTrust
from eagletui.nodes.known_hosts import fingerprint
from eagletui.nodes.prompter import Question
from eagletui.nodes.ssh import SshNode
from eagletui.nodes.ssh_config import HostSettings
from eagletui.shell.script import Command, Script
from tests.requires import require
from tests.sshd import Sshd, start_sshd

ECHO = Script("echo", "echo ok\n")
PASSWORD = "correct horse"
Answer = bool | tuple[str, str, str, list[tuple[str, bool]]]
"""What an asyncssh server says to answers: right or wrong, or the next round."""


class Person:
    """Answers questions in turn: text for a question of one field, a list for several, None for ctrl+d, an exception to
    raise.
    """

    can_ask = True

    def __init__(self, *answers: str | Sequence[str] | BaseException | None, delay: float = 0) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.delay = delay

    async def ask(self, question: Question) -> Sequence[str] | None:
        self.questions.append(question)
        await asyncio.sleep(self.delay)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return [answer] if isinstance(answer, str) else answer

    @property
    def labels(self) -> list[str]:
        return [field.label for question in self.questions for field in question.fields]


async def works(node: SshNode, **options: bool) -> None:
    try:
        await node.connect(**options)
        assert (await node.run(Command(ECHO))).stdout == b"ok\n"
    finally:
        await node.aclose()


async def refused(node: SshNode, **options: bool) -> NodeError:
    try:
        with pytest.raises(NodeError) as caught:
            await node.connect(**options)
    finally:
        await node.aclose()
    assert "\n" not in str(caught.value)
    return caught.value


def keygen(*argv: str | Path) -> None:
    subprocess.run(["ssh-keygen", "-q", *argv], check=True, capture_output=True, timeout=30)


def locked(key: Path, to: Path, passphrase: str, *, public: bool = True, pem: bool = False) -> Path:
    shutil.copy(key, to)
    to.chmod(0o600)
    keygen("-p", "-N", passphrase, *(("-m", "PEM") if pem else ()), "-f", to)
    if public:
        shutil.copy(f"{key}.pub", f"{to}.pub")
    return to


def with_key(server: Sshd, name: str, *keys: Path, lines: Sequence[str] = ()) -> Path:
    config = server.write_config(name, *lines, *(f"IdentityFile {key}" for key in keys))
    config.write_text(config.read_text().replace(f"  IdentityFile {server.key}\n", ""))
    return config


# Passphrases


@pytest.mark.parametrize("public", [True, False])
async def test_a_passphrase(sshd_server: Sshd, tmp_path: Path, public: bool) -> None:
    key = locked(sshd_server.key, tmp_path / "key", "open sesame", public=public)
    person = Person("wrong", "open sesame")
    node = SshNode(sshd_server.target(), config_file=with_key(sshd_server, "locked", key), prompter=person)
    await works(node)
    assert node.asked_person
    assert person.labels == [f"Passphrase of {key}"] * 2
    assert all(f.secret and not f.by_server for q in person.questions for f in q.fields)
    assert person.questions[0].login == f"{sshd_server.user()}@127.0.0.1:{sshd_server.port}"
    assert "does not open" in person.questions[1].told[0]


async def test_an_old_key_shows_itself_only_by_its_passphrase(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, open_folder: Path
) -> None:
    rsa = tmp_path / "rsa"
    keygen("-t", "rsa", "-b", "2048", "-N", "", "-f", rsa)
    key = locked(rsa, tmp_path / "old", "open sesame", public=False, pem=True)
    assert "ENCRYPTED" in key.read_text()
    keys = open_folder / "authorized"
    keys.write_text(Path(f"{rsa}.pub").read_text())
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, (f"AuthorizedKeysFile {keys}",)) as server:
        person = Person("wrong", "open sesame")
        await works(SshNode(server.target(), config_file=with_key(server, "old", key), prompter=person))
        assert person.labels == [f"Passphrase of {key}"] * 2


async def test_only_the_key_that_the_server_accepts_is_asked_for(sshd_server: Sshd, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    keygen("-t", "ed25519", "-N", "x", "-f", stranger)
    key = locked(sshd_server.key, tmp_path / "key", "open sesame")
    person = Person("open sesame")
    await works(SshNode(sshd_server.target(), config_file=with_key(sshd_server, "two", stranger, key), prompter=person))
    assert person.labels == [f"Passphrase of {key}"]


async def test_an_empty_passphrase_passes_the_key_over(sshd_server: Sshd, tmp_path: Path) -> None:
    key = locked(sshd_server.key, tmp_path / "key", "open sesame")
    config = with_key(sshd_server, "skip", key, sshd_server.key)
    # The same key again, unlocked: the next in turn.
    person = Person("")
    node = SshNode(sshd_server.target(), config_file=config, prompter=person)
    await works(node)
    assert not node.asked_person
    error = await refused(
        SshNode(sshd_server.target(), config_file=with_key(sshd_server, "only", key), prompter=Person(None))
    )
    assert isinstance(error, AuthError)
    assert not error.needs_person
    assert f"ssh-add {key}" in str(error)


async def test_three_wrong_passphrases(sshd_server: Sshd, tmp_path: Path) -> None:
    key = locked(sshd_server.key, tmp_path / "key", "open sesame")
    person = Person("a-secret", "b-secret", "c-secret", "open sesame")
    node = SshNode(sshd_server.target(), config_file=with_key(sshd_server, "wrong3", key), prompter=person)
    error = await refused(node)
    assert isinstance(error, AuthError)
    assert len(person.questions) == 3
    assert "secret" not in str(error)
    assert "secret" not in repr(error.__context__)


async def test_batch_mode_and_an_automatic_login_ask_nobody(sshd_server: Sshd, tmp_path: Path) -> None:
    key = locked(sshd_server.key, tmp_path / "key", "open sesame")
    person = Person()
    batch = with_key(sshd_server, "batch", key, lines=("BatchMode yes",))
    error = await refused(SshNode(sshd_server.target(), config_file=batch, prompter=person))
    assert isinstance(error, AuthError)
    assert not error.needs_person
    config = with_key(sshd_server, "auto", key)
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=person), may_ask=False)
    assert isinstance(error, AuthError)
    assert error.needs_person
    assert f"the passphrase of {key}" in str(error)
    assert not person.questions


async def test_a_login_that_is_stopped(sshd_server: Sshd, tmp_path: Path) -> None:
    key = locked(sshd_server.key, tmp_path / "key", "open sesame")
    config = with_key(sshd_server, "stopped", key, sshd_server.key)
    person = Person(LoginCancelledError("stopped"))
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=person))
    assert isinstance(error, LoginCancelledError)
    assert error.exit_status == 130


async def test_a_certificate_beside_a_locked_key(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path) -> None:
    authority, user = tmp_path / "ca", tmp_path / "user"
    keygen("-t", "ed25519", "-N", "", "-f", authority)
    keygen("-t", "ed25519", "-N", "open sesame", "-f", user)
    keygen("-s", authority, "-I", "user", "-n", sshd_users["bash"], f"{user}.pub")
    options = (f"TrustedUserCAKeys {authority}.pub", "AuthorizedKeysFile none")
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, options) as server:
        person = Person("open sesame")
        await works(SshNode(server.target(), config_file=with_key(server, "cert", user), prompter=person))
        assert len(person.questions) == 1


async def test_a_certificate_of_a_key_in_the_agent(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path) -> None:
    require("ssh-agent")
    authority, user, agent = tmp_path / "ca", tmp_path / "user", tmp_path / "agent"
    keygen("-t", "ed25519", "-N", "", "-f", authority)
    keygen("-t", "ed25519", "-N", "", "-f", user)
    process = subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while not agent.exists() and time.monotonic() < until:
            await asyncio.sleep(0.05)
        subprocess.run(["ssh-add", "-q", user], check=True, capture_output=True, env={"SSH_AUTH_SOCK": str(agent)})
        keygen("-s", authority, "-I", "user", "-n", sshd_users["bash"], f"{user}.pub")
        user.unlink()  # its public half and its certificate stay
        options = (f"TrustedUserCAKeys {authority}.pub", "AuthorizedKeysFile none")
        with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, options) as server:
            config = with_key(server, "agent", user, lines=(f"IdentityAgent {agent}",))
            await works(SshNode(server.target(), config_file=config))
    finally:
        process.terminate()
        process.wait(5)


# Passwords


def set_password(user: str, password: str) -> None:
    subprocess.run(["chpasswd"], input=f"{user}:{password}\n", text=True, check=True, capture_output=True, timeout=30)


@pytest.fixture
def password(sshd_users: dict[str, str]) -> Iterator[str]:
    """The user with bash has a password while the test runs."""
    require("chpasswd")
    set_password(sshd_users["bash"], PASSWORD)
    yield PASSWORD
    subprocess.run(["usermod", "-p", "*", sshd_users["bash"]], check=True, timeout=30)


async def test_a_password(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, ("PasswordAuthentication yes",)) as server:
        config = with_key(server, "password", lines=("PreferredAuthentications password",))
        person = Person("not it", password)
        node = SshNode(server.target(), config_file=config, prompter=person)
        await works(node)
        assert node.asked_person
        assert person.labels == [f"Password of {server.user()}"] * 2
        assert "not accepted" in person.questions[1].told[0]
        assert "asyncssh" in {record.name.split(".")[0] for record in caplog.records}
        assert password not in caplog.text
        many = Person("1", "2", "3", password)
        error = await refused(SshNode(server.target(), config_file=config, prompter=many))
        assert isinstance(error, AuthError)
        assert len(many.questions) == 3
        assert "no password was accepted" in str(error)
        once = with_key(server, "once", lines=("NumberOfPasswordPrompts 1", "PubkeyAuthentication no"))
        assert isinstance(
            await refused(SshNode(server.target(), config_file=once, prompter=(one := Person("1")))), AuthError
        )
        assert len(one.questions) == 1
        nobody = await refused(SshNode(server.target(), config_file=config))
        assert isinstance(nobody, AuthError)
        assert nobody.needs_person
        assert "a password" in str(nobody)
        no = with_key(server, "no", lines=("PasswordAuthentication no",))
        error = await refused(SshNode(server.target(), config_file=no, prompter=Person()))
        assert isinstance(error, AuthError)
        assert not error.needs_person


async def test_a_key_and_a_password(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, password: str) -> None:
    options = ("PasswordAuthentication yes", "AuthenticationMethods publickey,password")
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, options) as server:
        key = locked(ssh_key, tmp_path / "key", "open sesame")
        person = Person("open sesame", password)
        await works(SshNode(server.target(), config_file=with_key(server, "both", key), prompter=person))
        assert person.labels == [f"Passphrase of {key}", f"Password of {server.user()}"]


async def test_a_jump_host_asks_for_itself(
    sshd_server: Sshd, sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, password: str
) -> None:
    """The jump host wants a password and has an unknown key; the node behind it wants a passphrase."""
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, ("PasswordAuthentication yes",)) as jump:
        key, known = locked(ssh_key, tmp_path / "key", "open sesame"), tmp_path / "known"
        known.write_text(sshd_server.known_hosts.read_text())
        config = with_key(
            sshd_server, "hops", lines=(
                f"Host inner\n  HostName 127.0.0.1\n  Port {sshd_server.port}\n  User {sshd_server.user()}",
                f"  ProxyJump door\n  IdentityFile {key}",
                f"Host door\n  HostName 127.0.0.1\n  Port {jump.port}\n  User {jump.user()}",
                "  PreferredAuthentications password",
                f"Host *\n  UserKnownHostsFile {known}",
            ),
        )  # fmt: skip
        person = Person("yes", password, "open sesame")
        await works(SshNode("inner", config_file=config, prompter=person))
        logins = [question.login for question in person.questions]
        assert f"{jump.user()}@127.0.0.1:{jump.port}" in logins[0]
        assert logins[0] == logins[1]
        assert "door" in logins[1]
        assert "on the way to inner" in logins[1]
        assert "door" not in logins[2]
        assert f"[127.0.0.1]:{jump.port} " in known.read_text()


async def test_what_was_not_answered_is_said(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path) -> None:
    options = ("PasswordAuthentication yes", "PubkeyAuthentication no", "MaxAuthTries 2")
    with start_sshd(tmp_path / "password", sshd_users, ssh_key, options) as server:
        target, config = server.target(), server.config
        error = await refused(SshNode(target, config_file=config, prompter=Person("")))
        assert str(error).endswith("no password was given")
        error = await refused(SshNode(target, config_file=config, prompter=Person("wrong", "wrong again", "more")))
        assert "no password was accepted" in str(error)
        assert "MaxAuthTries" in str(error)
        assert "keys" not in str(error)


# Host keys


def unknown(server: Sshd, tmp_path: Path, *lines: str) -> tuple[Path, Path]:
    known = tmp_path / "ssh" / "known_hosts"
    return server.write_config(tmp_path.name, f"UserKnownHostsFile {known}", *lines), known


def shown(server: Sshd) -> str:
    return fingerprint(base64.b64decode(Path(f"{server.host_keys['ed25519']}.pub").read_text().split()[1]))


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("strict", ["ask", "no"])
async def test_an_unknown_key_is_asked_and_stored(sshd_server: Sshd, tmp_path: Path, hashed: bool, strict: str) -> None:
    config, known = unknown(
        sshd_server, tmp_path, f"HashKnownHosts {'yes' if hashed else 'no'}", f"StrictHostKeyChecking {strict}"
    )
    person = Person("perhaps", " YES ")
    node = SshNode(sshd_server.target(), config_file=config, prompter=person)
    await works(node)
    assert not node.asked_person
    told = " ".join(person.questions[0].told)
    assert f"ssh-ed25519 {shown(sshd_server)}" in told
    assert f"127.0.0.1:{sshd_server.port}" in told
    assert "yes, no" in " ".join(person.questions[1].told)
    assert not person.questions[0].fields[0].secret
    stored = known.read_text()
    assert stored.count("\n") == 1
    assert stored.startswith("|1|" if hashed else f"[127.0.0.1]:{sshd_server.port} ssh-ed25519 ")
    await works(SshNode(sshd_server.target(), config_file=config, prompter=Person()))
    assert known.read_text() == stored


async def test_a_key_that_cannot_be_stored_is_said_so(sshd_server: Sshd, tmp_path: Path) -> None:
    config, known = unknown(sshd_server, tmp_path)
    known.mkdir(parents=True)
    person = Person("yes")
    await works(SshNode(sshd_server.target(), config_file=config, prompter=person))
    assert f"cannot be stored, so it will be asked about again: {known} is not a file" in " ".join(
        person.questions[0].told
    )
    assert "store" not in person.questions[0].fields[0].label


async def test_a_device_is_no_known_hosts_file(sshd_server: Sshd, tmp_path: Path) -> None:
    config, known = unknown(sshd_server, tmp_path)
    known.parent.mkdir()
    known.symlink_to("/dev/zero")
    await works(SshNode(sshd_server.target(), config_file=config, prompter=Person("yes")))


async def test_half_a_key_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("# mine")
    write = os.write

    def full(file: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", broken)
        return write(file, data[:60])

    def broken(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    blob = base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIF1QYkz7+icIyq3Jyesd4Knmeg2XhYJEMlStPDFIMAsd")
    trust = FileTrust(HostSettings("node", "node", "me", user_known_hosts=(known,), accept_new=True))
    assert trust.judge(blob) is None
    monkeypatch.setattr(os, "write", full)
    trust.confirmed()
    assert os.write is broken
    assert known.read_text() == "# mine"


async def test_a_pasted_fingerprint_is_compared(sshd_server: Sshd, tmp_path: Path) -> None:
    config, known = unknown(sshd_server, tmp_path)
    other = "SHA256:" + "A" * 43
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=Person(other)))
    assert isinstance(error, HostKeyError)
    assert other in str(error)
    assert not known.exists()
    await works(SshNode(sshd_server.target(), config_file=config, prompter=Person(shown(sshd_server))))
    assert shown(sshd_server).startswith("SHA256:")
    assert known.exists()


@pytest.mark.parametrize("answer", ["no", None])
async def test_a_key_that_is_not_agreed_on(sshd_server: Sshd, tmp_path: Path, answer: str | None) -> None:
    config, known = unknown(sshd_server, tmp_path)
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=Person(answer)))
    assert isinstance(error, HostKeyError)
    assert shown(sshd_server) in str(error)
    assert not known.exists()


@pytest.mark.parametrize("line", ["StrictHostKeyChecking yes", "BatchMode yes"])
async def test_settings_that_forbid_the_question(sshd_server: Sshd, tmp_path: Path, line: str) -> None:
    config, known = unknown(sshd_server, tmp_path, line)
    person = Person()
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=person))
    assert isinstance(error, HostKeyError)
    assert not error.needs_person
    assert not person.questions
    assert not known.exists()
    # The advice is a command that does ask.
    assert {"StrictHostKeyChecking yes": "-o StrictHostKeyChecking=ask ", "BatchMode yes": "-o BatchMode=no "}[
        line
    ] in str(error)


async def test_an_automatic_login_does_not_ask_about_a_key(sshd_server: Sshd, tmp_path: Path) -> None:
    config, known = unknown(sshd_server, tmp_path)
    person = Person()
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=person), may_ask=False)
    assert isinstance(error, HostKeyError)
    assert error.needs_person
    assert not person.questions
    assert not known.exists()


@pytest.mark.parametrize("marker", ["", "@revoked "])
async def test_changed_and_revoked_keys_never_reach_the_question(
    sshd_server: Sshd, ssh_key: Path, tmp_path: Path, marker: str
) -> None:
    config, known = unknown(sshd_server, tmp_path)
    path = ssh_key if not marker else sshd_server.host_keys["ed25519"]
    known.parent.mkdir()
    line = f"{marker}[127.0.0.1]:{sshd_server.port} {' '.join(Path(f'{path}.pub').read_text().split()[:2])}\n"
    known.write_text(line)
    person = Person()
    error = await refused(SshNode(sshd_server.target(), config_file=config, prompter=person))
    assert isinstance(error, HostKeyError)
    assert not error.needs_person
    assert f"{known}:1" in str(error)
    assert not person.questions
    assert known.read_text() == line


async def test_the_key_that_was_agreed_on_is_the_one_that_counts(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path
) -> None:
    """The host shows another key once the person has said yes: it is refused and nothing is stored."""
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key) as server:
        config, known = unknown(server, tmp_path)

        class Swapped(Person):
            async def ask(self, question: Question) -> Sequence[str] | None:
                for path in server.host_keys.values():
                    path.unlink()
                    Path(f"{path}.pub").unlink()
                    keygen("-t", path.name.removeprefix("host_"), "-N", "", "-f", path)
                server.restart()
                return await super().ask(question)

        error = await refused(SshNode(server.target(), config_file=config, prompter=Swapped("yes")))
    assert isinstance(error, HostKeyError)
    assert "agreed on" in str(error)
    assert not known.exists()


async def test_a_host_certificate_that_is_not_trusted_leaves_the_plain_key(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path
) -> None:
    authority, host, known = tmp_path / "ca", tmp_path / "certified", tmp_path / "known"
    keygen("-t", "ed25519", "-N", "", "-f", authority)
    keygen("-t", "ed25519", "-N", "", "-f", host)
    keygen("-s", authority, "-I", "host", "-h", "-n", "127.0.0.1", f"{host}.pub")
    options = (f"HostKey {host}", f"HostCertificate {host}-cert.pub")
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, options) as server:
        other = " ".join(Path(f"{ssh_key}.pub").read_text().split()[:2])
        known.write_text(f"@cert-authority * {other}\n")
        config = server.write_config("other_ca", f"UserKnownHostsFile {known}")
        person = Person("yes")
        await works(SshNode(server.target(), config_file=config, prompter=person))
        assert "authority that is not known" in person.questions[0].told[0]
        assert len(known.read_text().splitlines()) == 2
        await works(SshNode(server.target(), config_file=config, prompter=Person()))


# Keyboard-interactive


class Rounds(asyncssh.SSHServer):
    """Asks in two rounds, the second with two prompts; or plays tricks."""

    trick = ""

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - asyncssh's signature
        return True

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.round = 0
        if self.trick == "banner":
            conn.send_auth_banner("\x1b[2Jeagletui: the host key is right\r\nsecond \u202eline\n")

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(
        self,
        username: str,  # noqa: ARG002 - asyncssh's signature
        lang: str,  # noqa: ARG002 - asyncssh's signature
        submethods: str,  # noqa: ARG002 - asyncssh's signature
    ) -> tuple[str, str, str, list[tuple[str, bool]]]:
        self.round = 1
        return ("Two steps", "First\x1b[31m the token\nof your card", "", [("Token \x07: ", True)])

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> Answer:  # noqa: ARG002 - asyncssh's signature
        if self.round == 1 and list(responses) == ["123456"]:
            self.round = 2
            if self.trick == "many":
                return ("", "", "", [(f"{n}: ", False) for n in range(500)])
            return ("", "Now both", "", [("Password: ", False), ("PIN: ", False)])
        if self.trick == "endless":
            return ("", "", "", [("Again: ", False)])
        return self.round == 2 and list(responses) == ["pass", "0000"]


@pytest.fixture
async def rounds(
    ssh_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[str], tuple[str, Path]]]:
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Rounds, server_host_keys=[str(ssh_key)])
    port = server.get_port()
    config = tmp_path / "config"
    public = " ".join(Path(f"{ssh_key}.pub").read_text().split()[:2])
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {public}\n")
    config.write_text(
        f"Host *\n  UserKnownHostsFile {tmp_path}/known\n  IdentityAgent none\n  IdentityFile /nonexistent\n"
    )

    def make(trick: str = "") -> tuple[str, Path]:
        monkeypatch.setattr(Rounds, "trick", trick)
        return f"someone@127.0.0.1:{port}", config

    async with contextlib.aclosing(_Closing(server)):
        yield make


class _Closing:
    def __init__(self, server: asyncssh.SSHAcceptor) -> None:
        self.server = server

    async def aclose(self) -> None:
        self.server.close()
        await self.server.wait_closed()


async def test_several_rounds(rounds: Callable[..., tuple[str, Path]]) -> None:
    target, config = rounds()
    person = Person(["wrong"], ["123456"], ["pass", "0000"])
    node = SshNode(target, config_file=config, prompter=person)
    await node.connect()
    assert node.asked_person
    await node.aclose()
    first = person.questions[0]
    assert first.said == ("Two steps", "First [31m the token", "of your card")
    assert [(f.label, f.secret, f.by_server) for f in first.fields] == [("Token :", False, True)]
    assert "not accepted" in person.questions[1].told[0]
    assert [(f.label, f.secret) for f in person.questions[2].fields] == [("Password:", True), ("PIN:", True)]
    assert all(q.login.startswith("someone@127.0.0.1") for q in person.questions)


@pytest.mark.parametrize("trick", ["many", "endless"])
async def test_a_server_that_asks_without_end_is_left(rounds: Callable[..., tuple[str, Path]], trick: str) -> None:
    target, config = rounds(trick)
    person = Person(["123456"], *(["x"] for _ in range(100)))
    error = await refused(SshNode(target, config_file=config, prompter=person))
    assert isinstance(error, AuthError)
    assert len(person.questions) <= 20


async def test_a_banner_is_the_servers_word(rounds: Callable[..., tuple[str, Path]]) -> None:
    target, config = rounds("banner")
    person = Person(["123456"], ["pass", "0000"])
    node = SshNode(target, config_file=config, prompter=person)
    await node.connect()
    await node.aclose()
    assert person.questions[0].said[:2] == ("[2Jeagletui: the host key is right", "second line")
    assert person.questions[1].said[:1] != ("[2Jeagletui: the host key is right",)


async def test_nobody_to_answer(rounds: Callable[..., tuple[str, Path]]) -> None:
    target, config = rounds()
    error = await refused(SshNode(target, config_file=config))
    assert isinstance(error, AuthError)
    assert error.needs_person
    assert "keyboard-interactive" in str(error)


async def test_a_slow_person_is_not_cut(
    rounds: Callable[..., tuple[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagletui.nodes.ssh_login.LOGIN_SECONDS", 1.5)
    target, config = rounds()
    node = SshNode(target, config_file=config, prompter=Person(["123456"], ["pass", "0000"], delay=1.7))
    await node.connect()
    await node.aclose()


async def test_a_server_that_does_not_wait_for_the_person(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, password: str
) -> None:
    options = ("PasswordAuthentication yes", "LoginGraceTime 1")
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, options) as server:
        config = with_key(server, "grace", lines=("PubkeyAuthentication no",))
        person = Person(password, delay=30)
        error = await refused(SshNode(server.target(), config_file=config, prompter=person))
    assert isinstance(error, ConnectError)
    assert "LoginGraceTime" in str(error)


async def test_an_expired_password(ssh_key: Path, tmp_path: Path) -> None:
    class Expired(asyncssh.SSHServer):
        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:  # noqa: ARG002 - asyncssh's signature
            raise asyncssh.PasswordChangeRequired("choose another")

    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Expired, server_host_keys=[str(ssh_key)])
    port = server.get_port()
    config, known = tmp_path / "config", tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{port} {' '.join(Path(f'{ssh_key}.pub').read_text().split()[:2])}\n")
    config.write_text(f"Host *\n  UserKnownHostsFile {known}\n  PreferredAuthentications password\n")
    try:
        error = await refused(SshNode(f"x@127.0.0.1:{port}", config_file=config, prompter=Person("old")))
    finally:
        server.close()
        await server.wait_closed()
    assert isinstance(error, AuthError)
    assert "expired" in str(error)

"""What ssh's configuration says about a host. Where `ssh` is installed it is the reader: `ssh -G` prints one `keyword
value` a line.

ssh_config(5) is the source of every keyword. `ssh -G` knows Include, Match (also `exec`), canonicalisation and
defaults, all of the
user's own version; it leaves tokens (`%h`) and `~` in place, which are expanded here.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from eagletui.errors import ConnectError, UnknownHostError
from eagletui.nodes.child import start
from eagletui.nodes.target import Target

READ_SECONDS = 10.0
"""`ssh -G` takes milliseconds; a `Match exec` in the configuration may take a while."""

LOGIN_METHODS = ("publickey", "keyboard-interactive", "password")
"""Ways of login that eagletui knows, in the order of OpenSSH's own default. There is no GSSAPI and no host-based one."""
_SWITCHES = {
    "publickey": "pubkeyauthentication",
    "keyboard-interactive": "kbdinteractiveauthentication",
    "password": "passwordauthentication",
}
PASSWORD_PROMPTS = 3
"""OpenSSH's default of NumberOfPasswordPrompts."""

_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How to reach one host. Paths are expanded; `certificate_files` are those that exist, `identity_files` those of
    which
    the file or its FILE.pub exists (the agent may hold the rest).

    `agent` is the socket of the ssh-agent or None. `connect_timeout` is in seconds, None where it is not set.
    `algorithms` are host key
    algorithms, best first, empty where the library decides. `proxy_jump` lists hops, nearest first. `proxy_command`
    is ready for a shell. `strict`: an unknown host key is refused without a question. `login_methods` are those to try,
    in order; `batch`: nobody is to be asked; `password_prompts` is how often a person may try. `ciphers`, `key_exchanges`,
    `macs` and `signatures` (those of the user's keys) are algorithms, best first, empty where the library decides.
    `bind_address` is this machine's address to connect from. `known_hosts_command`: there is
    one, which is not run.
    """

    name: str
    host: str
    user: str
    port: int = 22
    identity_files: tuple[Path, ...] = ()
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: str | None = None
    proxy_jump: tuple[str, ...] = ()
    proxy_command: str | None = None
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    accept_new: bool = False
    hash_known_hosts: bool = False
    alias: str | None = None
    connect_timeout: float | None = None
    family: int = socket.AF_UNSPEC
    algorithms: tuple[str, ...] = ()
    strict: bool = False
    login_methods: tuple[str, ...] = LOGIN_METHODS
    batch: bool = False
    password_prompts: int = PASSWORD_PROMPTS
    compression: bool = False
    ciphers: tuple[str, ...] = ()
    key_exchanges: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    bind_address: str | None = None
    known_hosts_command: bool = False

    @property
    def public_key_login(self) -> bool:
        """Whether keys are offered."""
        return "publickey" in self.login_methods

    @property
    def address(self) -> str:
        """host:port for a sentence."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def called(self) -> str:
        """The machine in a sentence: its name, and its address where that is another."""
        return self.address if self.name == self.host else f"{self.name} ({self.address})"

    def without_proxy(self) -> HostSettings:
        """The same host, reached through a hop that is already there."""
        return replace(self, proxy_jump=(), proxy_command=None)


def have_ssh() -> bool:
    """Whether `ssh` is on PATH."""
    return shutil.which("ssh") is not None


async def ask_ssh(target: Target, config_file: Path | None) -> HostSettings:
    """Settings from `ssh -G`. Raises ConnectError when ssh cannot read its configuration."""
    argv = ["ssh", "-T", "-G"]
    argv += ["-F", str(config_file)] if config_file is not None else []
    argv += ["-p", str(target.port)] if target.port is not None else []
    argv += ["-l", target.user] if target.user is not None else []
    try:
        process = await start(
            *argv,
            "--",
            target.host,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as exc:
        raise ConnectError(f"cannot start ssh to read its configuration for {target}: {exc.strerror}") from exc
    try:
        async with asyncio.timeout(READ_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        raise ConnectError(
            f"ssh -G {target.host} gave no answer in {READ_SECONDS:.0f} s: look for a `Match exec` that hangs"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = err.decode(errors="replace").strip().splitlines()
        if said and "Could not resolve host" in said[-1]:
            # Only with CanonicalizeHostname does `ssh -G` look a name up.
            raise UnknownHostError(
                f"cannot find {target.host}: ssh's configuration (CanonicalizeHostname) knows no domain that has it. "
                "Check the name, or give it a HostName in ~/.ssh/config"
            )
        raise ConnectError(
            f"ssh cannot read its configuration for {target}: {said[0] if said else f'exit {process.returncode}'}"
        )
    return parse_ssh_g(target, out.decode("utf-8", "surrogateescape"))


def parse_ssh_g(target: Target, text: str) -> HostSettings:
    """Settings from what `ssh -G` printed. Total: a keyword that is missing or odd leaves its default."""
    found: dict[str, list[str]] = {}
    for line in text.split("\n"):  # as ssh parts them: a path may hold what Unicode takes for the end of a line
        keyword, _, value = line.partition(" ")
        found.setdefault(keyword.lower(), []).append(value.strip())

    def one(keyword: str, default: str = "") -> str:
        return found.get(keyword, [default])[0]

    host, user = one("hostname", target.host), one("user", target.user or local_user())
    port = int(one("port")) if one("port").isdigit() else (target.port or 22)
    alias = one("hostkeyalias") or None
    tokens = _tokens(target, host, user, port, alias)
    timeout = one("connecttimeout")
    jump, command = one("proxyjump"), one("proxycommand")
    return HostSettings(
        name=target.host,
        host=host,
        user=user,
        port=port,
        identity_files=tuple(
            p for v in found.get("identityfile", []) if (p := expand(v, tokens)).is_file() or Path(f"{p}.pub").is_file()
        ),
        certificate_files=existing(expand(v, tokens) for v in found.get("certificatefile", [])),
        identities_only=one("identitiesonly") == "yes",
        agent=_agent(one("identityagent"), tokens),
        proxy_jump=tuple(jump.split(",")) if jump and jump != "none" else (),
        proxy_command=_replace_tokens(command, tokens) if command and command != "none" else None,
        user_known_hosts=_paths(one("userknownhostsfile"), tokens),
        global_known_hosts=_paths(one("globalknownhostsfile"), tokens),
        accept_new=one("stricthostkeychecking") == "accept-new",
        hash_known_hosts=one("hashknownhosts") == "yes",
        alias=alias,
        connect_timeout=float(timeout) if timeout.isdigit() and int(timeout) > 0 else None,
        family=_FAMILIES.get(one("addressfamily"), socket.AF_UNSPEC),
        algorithms=_names(one("hostkeyalgorithms")),
        strict=one("stricthostkeychecking") in {"yes", "true"},
        login_methods=_login_methods({m: one(s) for m, s in _SWITCHES.items()}, one("preferredauthentications")),
        batch=one("batchmode") in {"yes", "true"},
        password_prompts=int(prompts) if (prompts := one("numberofpasswordprompts")).isdigit() else PASSWORD_PROMPTS,
        compression=one("compression") == "yes",
        ciphers=_names(one("ciphers")),
        key_exchanges=_names(one("kexalgorithms")),
        macs=_names(one("macs")),
        signatures=_names(one("pubkeyacceptedalgorithms") or one("pubkeyacceptedkeytypes")),
        known_hosts_command=one("knownhostscommand") not in {"", "none"},
        bind_address=bound if (bound := one("bindaddress")) not in {"", "none"} else None,
    )


def _names(value: str) -> tuple[str, ...]:
    """Names of algorithms. `ssh -G` has worked out patterns and changes to the defaults (`+`, `-`, `^`); where there is
    no ssh they are left to the library's defaults.
    """
    if value[:1] in {"+", "-", "^"} or "*" in value or "?" in value:
        return ()
    return tuple(name for name in value.split(",") if name)


def _login_methods(switches: dict[str, str], preferred: str) -> tuple[str, ...]:
    wanted = preferred.split(",") if preferred else LOGIN_METHODS
    return tuple(m for m in dict.fromkeys(wanted) if m in switches and switches[m] not in {"no", "false"})


def local_user() -> str:
    """The name of the user who runs this, as ssh finds it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("USER", "unknown")


def home() -> str:
    """The home folder that ssh uses: the password entry's, not $HOME."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.environ.get("HOME", "/")


def _tokens(target: Target, host: str, user: str, port: int, alias: str | None) -> dict[str, str]:
    full = socket.gethostname()
    return {
        "%": "%", "d": home(), "h": host, "i": str(os.getuid()), "k": alias or target.host,
        "L": full.split(".")[0], "l": full, "n": target.host, "p": str(port), "r": user, "u": local_user(),
    }  # fmt: skip


def _replace_tokens(value: str, tokens: dict[str, str]) -> str:
    return re.sub(r"%(.)", lambda m: tokens.get(m[1], m[0]), value)


def expand(value: str, tokens: dict[str, str]) -> Path:
    """A path with `~`, `${NAME}` and the `%` tokens of ssh_config(5) replaced."""
    value = re.sub(r"\$\{(\w+)\}", lambda m: os.environ.get(m[1], m[0]), _replace_tokens(value, tokens))
    if value == "~" or value.startswith("~/"):
        value = home() + value[1:]
    return Path(value).expanduser() if value.startswith("~") and "/" in value else Path(value)


def existing(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those that are there: ssh passes over the others without a word."""
    return tuple(p for p in paths if p.is_file())


def _paths(value: str, tokens: dict[str, str]) -> tuple[Path, ...]:
    """Several paths on one line. `ssh -G` prints them unquoted, so words are joined where only the whole is a file."""
    words, paths = value.split(" "), []
    while words:
        if words[0] in {"", "none"}:
            del words[0]
            continue
        joined = next((n for n in range(len(words), 1, -1) if expand(" ".join(words[:n]), tokens).is_file()), 1)
        paths.append(expand(" ".join(words[:joined]), tokens))
        del words[:joined]
    return tuple(paths)


def _agent(value: str, tokens: dict[str, str]) -> str | None:
    if value == "none":
        return None
    if value in {"", "SSH_AUTH_SOCK"}:
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.startswith("$") and not value.startswith("${"):
        return os.environ.get(value[1:]) or None
    return str(expand(value, tokens))

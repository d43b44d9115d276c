"""Rows of the table of ssh configurations: what a user writes, and what `ssh` gives for it.

`<word>` in a row is filled in by tests/nodes/test_ssh_table.py: ports `<main>`, `<jump>`, `<jump2>`, `<certified>` (shows
a host certificate), `<dead>` (nobody listens); users `<user>` and `<other>` of the servers, `<me>` who runs the client,
`<home>`; `<f>` the row's own folder, `<key>` the row's own key, `<wrong>` one that no server knows, `<few>` and `<many>`
agents with the right key last, `<cert>` `<expired>` `<stranger>` keys with certificates; host keys `<ed25519>` `<rsa>` of
the main server, `<impostor>`, `<authority>`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

IN = "in"
TAIL = """
Host *
  User <user>
  Port <main>
  UserKnownHostsFile <f>/known
  GlobalKnownHostsFile /dev/null
  IdentityAgent none
  ConnectTimeout 10
"""
"""After the lines of every row; the first value of a keyword wins."""
OWN_KEY = "  IdentityFile <key>\n  IdentitiesOnly yes\n"
"""For the rows that are not about keys."""
BATCH = "  BatchMode yes\n"
KNOWN = "[127.0.0.1]:*,[localhost]:*,[::1]:*"


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration. `gives` is what ssh gives: IN or a class of failure.

    `node` is what the user types, `ssh_name` how ssh is told the same where it does not know that form. `own_key`: the
    tail names the row's key. `ours` and `reader` (without an `ssh` program) are (what we give, why it differs on
    purpose); None: the same as ssh. `reader` "" says the row is not for the reader. `home`: the user's default files
    are read (no -F), `config` is appended to them.
    """

    id: str
    config: str
    node: str = "127.0.0.1"
    gives: str = IN
    ssh_name: str = ""
    own_key: bool = True
    files: dict[str, str] = field(default_factory=dict)
    ours: tuple[str, str] | None = None
    reader: tuple[str, str] | str | None = None
    home: bool = False
    crlf: bool = False


NOT_READ = "asyncssh's reader does not know it"
ALIAS = "Host gpu\n  HostName 127.0.0.1\n"
HOP = "Host hop\n  HostName 127.0.0.1\n  Port <jump>\n"
HOP2 = "Host hop2\n  HostName 127.0.0.1\n  Port <jump2>\n"
RELAY = "PATH=/usr/bin:/bin; exec 3<>/dev/tcp/$1/$2 || exit 1\ntrap 'kill $p 2>/dev/null' EXIT; trap exit HUP TERM\ncat <&3 & p=$!\ncat >&3\n"
"""A ProxyCommand in bash that ends with all its processes."""

NAMES = (
    Row("address alone", ""),
    Row("HostName", ALIAS, "gpu"),
    Row("User", "Host gpu\n  HostName 127.0.0.1\n  User <other>\n", "gpu"),
    Row("Port", "Host gpu\n  HostName 127.0.0.1\n  Port <jump>\n", "gpu"),
    Row("user in the name beats User", "User <user>\n", "<other>@127.0.0.1"),
    Row("port in the name beats Port", "Port <dead>\n", "127.0.0.1:<main>", ssh_name="ssh://127.0.0.1:<main>"),
    Row("user@host:port", "", "<other>@localhost:<jump>", ssh_name="ssh://<other>@localhost:<jump>"),
    Row("ssh URL", "", "ssh://<other>@localhost:<jump>"),
    Row("ssh URL with a slash", "", "ssh://<other>@localhost:<jump>/"),
    Row("IPv6 literal", "", "::1"),
    Row("[::1]:port", "", "[::1]:<jump>", ssh_name="-p <jump> ::1"),
    Row("[::1] alone", "", "[::1]", ssh_name="::1"),
    Row("upper case", "Host gpu\n  HostName 127.0.0.1\n", "GPU", gives="no such host"),
    Row("upper case of a real name", "", "LOCALHOST"),
    Row("upper case HostName", "Host gpu\n  HostName LOCALHOST\n", "gpu"),
    Row("trailing dot", "Host gpu.\n  HostName 127.0.0.1\n", "gpu."),
    Row("HostName with %h", "Host local\n  HostName %hhost\n", "local"),
    Row("no such host", "", "nowhere.invalid", gives="no such host"),
    Row("refused", "Port <dead>\n", gives="refused"),
)

BLOCKS = (
    Row("first block wins", ALIAS + "  User <other>\nHost gpu\n  User nobody\n  HostName nowhere.invalid\n", "gpu"),
    Row("patterns", "Host g?u-*\n  HostName 127.0.0.1\n  User <other>\n", "gpu-1"),
    Row("negation", "Host gpu-* !gpu-2\n  User nobody\nHost gpu-2\n  HostName 127.0.0.1\n", "gpu-2"),
    Row("several patterns", "Host a b gpu\n  HostName 127.0.0.1\n", "gpu"),
    Row("keyword = value", "Host=gpu\n  HostName=127.0.0.1\n\tUser = <other>\n", "gpu"),
    Row("quoted values", 'Host "gpu"\n  HostName "127.0.0.1"\n  User "<other>"\n', "gpu"),
    Row(
        "comments and blank lines",
        "# first\n\nHost gpu # the node\n  HostName 127.0.0.1\n  # User nobody\n",
        "gpu",
        reader=(IN, ""),
    ),
    Row("Match host", "Match host 127.0.0.*\n  User <other>\n"),
    Row("Match host after HostName", ALIAS + "Match host 127.0.0.1\n  User <other>\n", "gpu"),
    Row("Match originalhost", ALIAS + "Match originalhost gpu\n  User <other>\n", "gpu"),
    Row("Match user", "Match user <other>\n  Port <jump>\n", "<other>@127.0.0.1"),
    Row("Match localuser", "Match localuser <me>\n  User <other>\n"),
    Row("Match exec", 'Match exec "test -f <f>/known"\n  User <other>\nMatch exec "test -f <f>/no"\n  User nobody\n'),
    Row(
        "Match exec with tokens",
        'Match exec "test %n = gpu -a %h = gpu"\n  HostName 127.0.0.1\n',
        "gpu",
        reader=("configuration", "asyncssh takes the `=` in the command for one of its own"),
    ),
    Row("Match exec with a negation", 'Match !exec "test -f <f>/no" originalhost gpu\n  HostName 127.0.0.1\n', "gpu"),
    Row("Match all", "Match all\n  User <other>\n"),
    Row("Match final", "Match final\n  Compression yes\nMatch final host 127.0.0.1\n  User <other>\n"),
    Row("Match canonical", "CanonicalizeHostname yes\nMatch canonical all\n  User <other>\n", "localhost"),
    Row(
        "CanonicalizeHostname",
        "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeMaxDots 0\n",
        "localhost",
    ),
    Row(
        "CanonicalizeFallbackLocal no",
        "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal no\n",
        "localhost",
        gives="no such host",
        reader=(IN, NOT_READ),
    ),
    Row("Include", "Include <f>/more\n", "gpu", files={"more": "Host gpu\n  HostName 127.0.0.1\n  User <other>\n"}),
    Row(
        "Include of a pattern, nested",
        "Include <f>/d/*.conf\n",
        "gpu",
        files={
            "d/1.conf": "Include <f>/inner\n",
            "d/2.conf": "Host gpu\n  User nobody\n",
            "inner": "Host gpu\n  HostName 127.0.0.1\n  User <other>\n",
        },
        # asyncssh reads the files in the folder's own order, which may be any.
        reader="",
    ),
    Row(
        "Include inside a block",
        "Host other\n  Include <f>/more\nHost gpu\n  HostName 127.0.0.1\n",
        "gpu",
        files={"more": "User nobody\n"},
    ),
    Row("Include of a missing file", "Include <f>/missing <f>/missing/*\n"),
    Row(
        "bad keyword",
        "Nonsense yes\n",
        gives="configuration",
        reader=(IN, "asyncssh passes over what it does not know"),
    ),
    Row("bad value", "Port many\n", gives="configuration"),
    Row("unknown keyword that is to be ignored", "IgnoreUnknown Nonsense\nNonsense yes\n"),
    Row("CRLF", "Host gpu\n  HostName 127.0.0.1\n  User <other>\n", "gpu", crlf=True),
    Row(
        "default files",
        ALIAS.replace("gpu", "home-gpu") + TAIL.replace("*", "home-gpu") + OWN_KEY,
        "home-gpu",
        home=True,
    ),
    Row(
        "relative Include",
        "Match all\nInclude extra.conf\n",
        "included-gpu",
        home=True,
        files={
            "<home>/.ssh/extra.conf": ALIAS.replace("gpu", "included-gpu") + TAIL.replace("*", "included-gpu") + OWN_KEY
        },
    ),
)

KEYS = (
    Row("missing IdentityFile", "IdentityFile <f>/missing\n"),
    Row("missing CertificateFile", "CertificateFile <f>/missing\n"),
    Row("no key at all", "IdentityFile <f>/missing\n", own_key=False, gives="login"),
    Row("IdentityFile none", "IdentityFile none\n", own_key=False, gives="login"),
    Row("wrong key", "IdentityFile <wrong>\n", own_key=False, gives="login"),
    Row("wrong key, then the right one", "IdentityFile <wrong>\nIdentityFile <key>\n", own_key=False),
    Row("IdentityFile ~", "IdentityFile ~/.ssh/right\n", own_key=False),
    Row("IdentityFile %d", "IdentityFile %d/.ssh/right\n", own_key=False),
    Row(
        "IdentityFile tokens",
        ALIAS + "  IdentityFile <f>/%h-%u-%r-%n-%p-%i\n",
        "gpu",
        own_key=False,
        files={"127.0.0.1-<me>-<user>-gpu-<main>-<uid>": "<private>"},
    ),
    Row("IdentityFile %L %l %%", "IdentityFile <f>/%L-%l-%%\n", own_key=False, files={"<short>-<host>-%": "<private>"}),
    Row("IdentityFile ${VARIABLE}", "IdentityFile <f>/${MY_WORD}\n", own_key=False, files={"word": "<private>"}),
    Row("IdentityFile quoted", 'IdentityFile "<f>/my key"\n', own_key=False, files={"my key": "<private>"}),
    Row(
        "IdentityFile in several blocks",
        ALIAS + "  IdentityFile <wrong>\nHost g*\n  IdentityFile <key>\n",
        "gpu",
        own_key=False,
    ),
    Row("agent", "IdentityAgent <few>\n", own_key=False),
    Row("agent with too many keys", "IdentityAgent <many>\n", own_key=False, gives="login"),
    Row(
        "agent with many keys, IdentitiesOnly",
        "IdentityAgent <many>\nIdentitiesOnly yes\nIdentityFile <right>.pub\n",
        own_key=False,
    ),
    Row("IdentitiesOnly with a key that the agent lacks", "IdentityAgent <many>\n"),
    Row("agent with many keys, the named one first", "IdentityAgent <many>\nIdentityFile <right>\n", own_key=False),
    Row("agent of $VARIABLE", "IdentityAgent $MY_AGENT\n", own_key=False),
    Row("agent of ${VARIABLE}", "IdentityAgent ${MY_AGENT}\n", own_key=False),
    Row("agent of SSH_AUTH_SOCK", "IdentityAgent SSH_AUTH_SOCK\n", own_key=False),
    Row("agent none", "IdentityAgent none\n", own_key=False, gives="login"),
    Row("agent that is not there", "IdentityAgent <f>/no-agent\n"),
    Row("certificate beside the key", "IdentityFile <cert>\n", own_key=False),
    Row("CertificateFile", "IdentityFile <bare>\nCertificateFile <cert>-cert.pub\n", own_key=False),
    Row("CertificateFile missing", "IdentityFile <bare>\nCertificateFile <f>/no\n", own_key=False, gives="login"),
    Row("expired certificate", "IdentityFile <expired>\n", own_key=False, gives="login"),
    Row("certificate of another user", "IdentityFile <stranger>\n", own_key=False, gives="login"),
    Row("PubkeyAuthentication no", "PubkeyAuthentication no\n", gives="login"),
    Row("PreferredAuthentications without keys", "PreferredAuthentications password\n", gives="login"),
    Row("PreferredAuthentications", "PreferredAuthentications gssapi-with-mic,publickey\n"),
    Row(
        "PubkeyAcceptedAlgorithms without the key's",
        "PubkeyAcceptedAlgorithms rsa-sha2-512\n",
        gives="login",
        reader=(IN, NOT_READ),
    ),
    Row("PubkeyAcceptedAlgorithms with it", "PubkeyAcceptedAlgorithms ssh-ed25519\n"),
)

HOSTS = (
    Row("unknown host key", "", files={"known": ""}, gives="unknown key"),
    Row("missing known_hosts", "UserKnownHostsFile <f>/no\n", gives="unknown key"),
    Row("known_hosts none", "UserKnownHostsFile none\n", gives="unknown key"),
    Row("changed host key", "", files={"known": f"{KNOWN} <impostor>\n"}, gives="changed key"),
    Row(
        "changed host key, accept-new",
        "StrictHostKeyChecking accept-new\n",
        files={"known": f"{KNOWN} <impostor>\n"},
        gives="changed key",
    ),
    Row(
        "accept-new",
        "StrictHostKeyChecking accept-new\nHashKnownHosts no\n",
        files={"known": ""},
        reader=("unknown key", NOT_READ),
    ),
    Row(
        "accept-new, hashed",
        "StrictHostKeyChecking accept-new\nHashKnownHosts yes\n",
        files={"known": ""},
        reader=("unknown key", NOT_READ),
    ),
    Row("StrictHostKeyChecking yes", "StrictHostKeyChecking yes\n", files={"known": ""}, gives="unknown key"),
    Row("StrictHostKeyChecking ask", "StrictHostKeyChecking ask\n", files={"known": ""}, gives="unknown key"),
    Row(
        "StrictHostKeyChecking no",
        "StrictHostKeyChecking no\n",
        files={"known": ""},
        ours=("unknown key", "an unknown key is asked all the same, and BatchMode forbids the question"),
        reader=("unknown key", "as ours"),
    ),
    Row("hashed known_hosts", "", files={"known": "<hashed>"}),
    Row("known without its port", "", files={"known": "127.0.0.1 <ed25519>\n"}),
    Row("known on another port", "", files={"known": "[127.0.0.1]:1 <ed25519>\n"}, gives="unknown key"),
    Row("HostKeyAlias", "HostKeyAlias the-gpu\n", files={"known": "the-gpu <ed25519>\n"}),
    Row("HostKeyAlias unknown", "HostKeyAlias the-gpu\n", gives="unknown key"),
    Row(
        "HostKeyAlias of another host",
        "HostKeyAlias the-gpu\n",
        files={"known": "the-gpu <impostor>\n"},
        gives="changed key",
    ),
    Row("CheckHostIP", "CheckHostIP yes\n", "localhost"),
    Row(
        "several UserKnownHostsFile",
        'UserKnownHostsFile "<f>/my hosts" <f>/no <f>/more\n',
        files={"my hosts": "", "more": f"{KNOWN} <ed25519>\n"},
    ),
    Row(
        "quoted UserKnownHostsFile",
        'UserKnownHostsFile "<f>/my hosts" "<f>/other hosts"\n',
        files={"my hosts": "", "other hosts": f"{KNOWN} <ed25519>\n"},
    ),
    Row(
        "UserKnownHostsFile with a token",
        ALIAS + "  UserKnownHostsFile <f>/known-%n-%k\n",
        "gpu",
        files={"known-gpu-gpu": f"{KNOWN} <ed25519>\n"},
    ),
    Row(
        "GlobalKnownHostsFile",
        "GlobalKnownHostsFile <f>/global\n",
        files={"known": "", "global": f"{KNOWN} <ed25519>\n"},
    ),
    Row(
        "KnownHostsCommand",
        "KnownHostsCommand /bin/cat <f>/said\n",
        files={"known": "", "said": f"{KNOWN} <ed25519>\n"},
        ours=("unknown key", "the command is not run: keys come from files only, and an unknown one is asked"),
    ),
    Row("revoked host key", "", files={"known": f"{KNOWN} <ed25519>\n@revoked * <ed25519>\n"}, gives="revoked key"),
    Row("host certificate", "Port <certified>\n", files={"known": "@cert-authority [127.0.0.1]:* <authority>\n"}),
    Row(
        "host certificate of another name",
        "Port <certified>\n",
        "::1",
        files={"known": "@cert-authority * <authority>\n"},
        gives="unknown key",
    ),
    Row("host certificate that nobody vouches for", "Port <certified>\n", files={"known": ""}, gives="unknown key"),
    Row("host certificate, plain key known", "Port <certified>\n", files={"known": f"{KNOWN} <plain>\n"}),
    Row(
        "revoked authority",
        "Port <certified>\n",
        files={"known": "@cert-authority * <authority>\n@revoked * <authority>\n"},
        gives="revoked key",
    ),
    Row("HostKeyAlgorithms", "HostKeyAlgorithms rsa-sha2-512\n", files={"known": f"{KNOWN} <rsa>\n"}),
    Row(
        "HostKeyAlgorithms of an unknown key",
        "HostKeyAlgorithms rsa-sha2-256\n",
        files={"known": f"{KNOWN} <ed25519>\n"},
        gives="changed key",
    ),
    Row("HostKeyAlgorithms that the host lacks", "HostKeyAlgorithms ecdsa-sha2-nistp521\n", gives="algorithms"),
    Row(
        "HostKeyAlgorithms taken away",
        "HostKeyAlgorithms -ssh-ed25519*\n",
        files={"known": f"{KNOWN} <rsa>\n"},
        reader="",
    ),
)

PROXIES = (
    Row(
        "ProxyCommand",
        ALIAS + "  ProxyCommand /bin/bash <f>/relay %h %p %r\n",
        "gpu",
        files={"relay": "test $3 = <user> || exit 1\n" + RELAY},
    ),
    Row("ProxyCommand that fails", "ProxyCommand sh -c 'echo no such door >&2; exit 1'\n", gives="proxy"),
    Row("ProxyCommand that is not there", "ProxyCommand <f>/missing %h\n", gives="proxy"),
    Row("ProxyCommand none before another", "ProxyCommand none\nHost *\n  ProxyCommand false\n"),
    Row(
        "ProxyCommand of ssh -W",
        "ProxyCommand <ssh> -F <f>/inner -W [%h]:%p hop\n",
        files={"inner": HOP + TAIL + OWN_KEY},
    ),
    Row("ProxyJump", "Match originalhost gpu\n  HostName 127.0.0.1\n  ProxyJump hop\n" + HOP, "gpu"),
    Row("ProxyJump by two hops", ALIAS + "  ProxyJump hop,hop2\n" + HOP + HOP2, "gpu"),
    Row(
        "hop with user, port and key of its own",
        ALIAS + "  ProxyJump hop\n" + HOP + "  User <other>\n  IdentityFile <right>\n",
        "gpu",
    ),
    Row("hop user@host:port", ALIAS + "  ProxyJump <other>@127.0.0.1:<jump>\n", "gpu"),
    Row("hop as URL", ALIAS + "  ProxyJump ssh://<other>@127.0.0.1:<jump>\n", "gpu"),
    Row("hop as IPv6", ALIAS + "  ProxyJump [::1]:<jump>\n", "gpu"),
    Row("ProxyJump none before another", ALIAS + "  ProxyJump none\nHost gpu\n  ProxyJump hop\n" + HOP, "gpu"),
    Row("hop that refuses", ALIAS + "  ProxyJump 127.0.0.1:<dead>\n", "gpu", gives="refused"),
    Row("hop that nobody knows", ALIAS + "  ProxyJump nowhere.invalid\n", "gpu", gives="no such host"),
    Row("hop that lets nobody in", ALIAS + "  ProxyJump hop\n" + HOP + "  User no-such-user\n", "gpu", gives="login"),
    Row(
        "hop with an unknown key",
        ALIAS + "  ProxyJump hop\n" + HOP + "  UserKnownHostsFile /dev/null\n",
        "gpu",
        gives="unknown key",
    ),
    Row("hop with a hop of its own", ALIAS + "  ProxyJump hop\n" + HOP + "  ProxyJump hop2\n" + HOP2, "gpu"),
    Row(
        "hop with a ProxyCommand of its own",
        ALIAS + "  ProxyJump hop\n" + HOP + "  ProxyCommand /bin/bash <f>/relay %h %p\n",
        "gpu",
        files={"relay": RELAY},
    ),
    Row(
        "second hop with a hop of its own",
        ALIAS + "  ProxyJump hop,hop2\n" + HOP + HOP2 + "  ProxyJump nowhere.invalid\n",
        "gpu",
    ),
    Row("ProxyJump before ProxyCommand", ALIAS + "  ProxyJump hop\n  ProxyCommand false\n" + HOP, "gpu"),
    Row(
        "ProxyCommand before ProxyJump",
        ALIAS + "  ProxyCommand false\n  ProxyJump hop\n" + HOP,
        "gpu",
        gives="proxy",
        reader=(IN, "asyncssh does not tell which of the two came first"),
    ),
    Row("target that refuses behind a hop", ALIAS + "  Port <dead>\n  ProxyJump hop\n" + HOP, "gpu", gives="refused"),
    Row(
        "key of the target behind a hop has changed",
        ALIAS + "  ProxyJump hop\n  UserKnownHostsFile <f>/bad\n" + HOP,
        "gpu",
        files={"bad": f"{KNOWN} <impostor>\n"},
        gives="changed key",
    ),
)

REST = (
    Row("AddressFamily inet", "AddressFamily inet\n", "localhost"),
    Row("AddressFamily inet6 of an IPv4 address", "AddressFamily inet6\n", gives="no such host",
        reader=(IN, NOT_READ)),
    Row("BindAddress", "BindAddress 127.0.0.2\n"),
    Row("BindAddress that is not ours", "BindAddress 203.0.113.9\n", gives="address"),
    Row("BindInterface", "BindInterface lo\n", reader=(IN, NOT_READ)),
    Row("ConnectTimeout and attempts", "ConnectTimeout 8\nConnectionAttempts 2\n"),
    Row("Compression", "Compression yes\n"),
    Row("Ciphers", "Ciphers aes256-ctr\nMACs hmac-sha2-512\nKexAlgorithms curve25519-sha256\n"),
    Row("Ciphers that nobody has", "Ciphers 3des-cbc\n", gives="algorithms"),
    Row("KexAlgorithms that nobody has", "KexAlgorithms diffie-hellman-group1-sha1\n", gives="algorithms"),
    Row(
        "KexAlgorithms that only ssh has",
        "KexAlgorithms sntrup761x25519-sha512@openssh.com\n",
        ours=("algorithms", "asyncssh has it only with a library that is not among our dependencies"),
    ),
    Row("Ciphers by a pattern", "Ciphers -chacha20*\nMACs -umac*\nKexAlgorithms ^ecdh-sha2-nistp256\n", reader=""),
    Row("LogLevel QUIET", "LogLevel QUIET\n"),
    Row("SendEnv, SetEnv", "SendEnv LANG\nSetEnv A=b\n"),
    Row("RemoteCommand", "RemoteCommand echo no\n", gives="configuration",
        ours=(IN, "ssh cannot have two commands; ours is another session of the same login"), reader=(IN, "as ours")),
    Row("RequestTTY force", "RequestTTY force\n"),
    Row("forwards", "ExitOnForwardFailure yes\nLocalForward 127.0.0.1:<forward> 127.0.0.1:1\nDynamicForward <forward2>\n"
        "ForwardAgent yes\nForwardX11 no\nPermitLocalCommand yes\nLocalCommand true\n", reader=""),
    Row("ControlMaster", "ControlMaster auto\nControlPath <f>/control-%C\nControlPersist no\n"),
)  # fmt: skip
ROWS = (*NAMES, *BLOCKS, *KEYS, *HOSTS, *PROXIES, *REST)

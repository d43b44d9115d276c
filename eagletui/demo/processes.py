"""The simulated node's processes, and how /proc would show them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eagletui.demo import shape

CLK_TCK: Final = 100
UID: Final = 1000
USER: Final = "demo"
HOME: Final = f"/home/{USER}"
LENA: Final = 1002
USERS: Final = {0: "root", 101: "messagebus", UID: USER, LENA: "lena"}
USER_MANAGER: Final = 7988
"""The login's systemd."""
TMUX: Final = 8120
"""The login's tmux server."""
TERMINAL: Final = 34_819
"""The device number of /dev/pts/3."""
SSHD: Final = (1130,)
"""The daemon, above every login."""
TITLE_BYTES: Final = 140
"""A renamed process's title is padded with NULs to the room its arguments had (recorded)."""
LAUNCHER_CHILDREN: Final = 83
"""How far the first child's pid is from the launcher's (recorded)."""
POOL: Final = 330
"""How far the compile workers' parent is from the first child, and how far they are from it (recorded)."""
POOL_WORKERS: Final = (81, 83, 85, 87)
PYTHON: Final = "/opt/venv/bin/python3"
SSHD_INODE: Final = 18_204
HTTP_INODE: Final = 2_918_377
"""Of the first server; each later launch has the next one."""
SESSION: Final = f"/user.slice/user-{UID}.slice/session-7.scope"
"""The control group of what this login's user runs."""


ENVIRONMENT: Final = {
    "SHELL": "/bin/bash", "PWD": HOME, "LOGNAME": USER, "HOME": HOME, "LANG": "C.UTF-8", "USER": USER, "VIRTUAL_ENV": "/opt/venv",
    "PATH": "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin", "CUDA_HOME": "/usr/local/cuda", "HF_HUB_OFFLINE": "1",
    "HF_TOKEN": "hf_demoDemoDemoDemoDemoDemoDemoDemoDe", "SSH_CONNECTION": "10.0.7.3 51822 10.0.7.20 22", "XDG_SESSION_ID": "7",
    "XDG_RUNTIME_DIR": f"/run/user/{UID}", "TERM": "xterm-256color", "SHLVL": "1", "_": "/usr/bin/nohup",
}  # fmt: skip
"""Of the server that somebody started by hand in an activated venv; the token is none."""
SSH_ENVIRONMENT: Final = {
    "SHELL": "/bin/bash", "PWD": HOME, "LOGNAME": USER, "HOME": HOME, "USER": USER, "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin", "SSH_CONNECTION": "10.0.7.3 51822 10.0.7.20 22", "XDG_SESSION_ID": "7",
    "XDG_RUNTIME_DIR": f"/run/user/{UID}",
}  # fmt: skip
"""What a plain command over ssh gets."""
LOGIN_ENVIRONMENT: Final = {
    **SSH_ENVIRONMENT,
    "VIRTUAL_ENV": "/opt/venv",
    "PATH": ENVIRONMENT["PATH"],
    "CUDA_HOME": "/usr/local/cuda",
}
"""What its login shell makes of it."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """An open file. `kind` is a word of the script `details`."""

    number: int
    link: str
    device: int
    inode: int
    size: int
    mtime: int
    kind: str


@dataclass(frozen=True, slots=True)
class Proc:
    """One process. `started` is unix seconds; `busy` the share of one core it uses; `title` replaces its arguments."""

    pid: int
    ppid: int
    pgrp: int
    session: int
    comm: str
    started: float
    uid: int = 0
    argv: tuple[str, ...] = ()
    title: str | None = None
    state: str = "S"
    threads: int = 1
    busy: float = 0.0
    rss_mib: int = 12
    cwd: str = "/"
    cgroup: str = SESSION
    tty: int = 0

    @property
    def is_gone(self) -> bool:
        """Only its exit status is left."""
        return self.state in "ZX" and self.threads <= 1

    @property
    def cmdline(self) -> bytes:
        """/proc/PID/cmdline."""
        if self.title is not None:
            return self.title.encode().ljust(TITLE_BYTES, b"\0")
        return b"".join(argument.encode("utf-8", "surrogateescape") + b"\0" for argument in self.argv)

    def elements(self) -> list[bytes]:
        """The elements of cmdline that are not empty, as the script `processes` lists them."""
        return [element for element in self.cmdline.split(b"\0") if element]

    def stat(self, boot: float, now: float) -> bytes:
        """/proc/PID/stat, 52 fields (proc(5))."""
        age = max(0.0, now - self.started)
        ticks = int(age * self.busy * CLK_TCK)
        start = int((self.started - boot) * CLK_TCK)
        rss = self.rss_mib * 256  # pages of 4 KiB
        fields = [
            self.state, self.ppid, self.pgrp, self.session, self.tty, -1, 4_194_304, 2048 + ticks, 0, 0, 0,
            ticks * 4 // 5, ticks - ticks * 4 // 5, 0, 0, 20, 0, self.threads, 0, start, self.rss_mib << 22, rss,
            2**64 - 1, 1, 1, 0, 0, 0, 0, 16_781_312, 17_410, 0, 0, 0, 17, self.pid % 32, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0,
        ]  # fmt: skip
        return f"{self.pid} ({self.comm}) {' '.join(str(f) for f in fields)}\n".encode()


def system(boot: float) -> list[Proc]:
    """What runs on any node. Kernel threads have no arguments."""

    def daemon(pid: int, comm: str, *argv: str, uid: int = 0, after: float = 4.0, ppid: int = 1) -> Proc:
        group = (
            SESSION
            if uid == UID
            else f"/user.slice/user-{uid}.slice/session-4.scope"
            if uid == LENA
            else f"/system.slice/{comm}.service"
        )
        return Proc(
            pid,
            ppid,
            pid,
            pid,
            comm,
            boot + after,
            uid,
            argv,
            cgroup=group,
            tty=TERMINAL if comm in {"bash", "htop"} else 0,
        )

    return [
        Proc(1, 0, 1, 1, "systemd", boot + 0.9, 0, ("/sbin/init",), busy=0.0005),
        Proc(2, 0, 0, 0, "kthreadd", boot + 0.9),
        Proc(16, 2, 0, 0, "ksoftirqd/0", boot + 0.9),
        Proc(214, 2, 0, 0, "nvidia-modeset/", boot + 3.2),
        daemon(611, "systemd-journal", "/usr/lib/systemd/systemd-journald"),
        daemon(902, "dbus-daemon", "@dbus-daemon", "--system", "--address=systemd:", uid=101),
        daemon(1017, "nvidia-persiste", "/usr/bin/nvidia-persistenced", "--persistence-mode", after=6.0),
        daemon(1044, "cron", "/usr/sbin/cron", "-f"),
        daemon(1130, "sshd", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"),
        daemon(USER_MANAGER, "systemd", "/usr/lib/systemd/systemd", "--user", uid=UID, after=5199.0),
        daemon(TMUX, "tmux: server", "tmux", "new", "-s", "tune", uid=UID, after=5200.0),
        daemon(8121, "bash", "-bash", uid=UID, after=5200.1, ppid=TMUX),
        daemon(12_877, "htop", "htop", uid=LENA, after=90_000.0, ppid=12_874),
        daemon(12_874, "bash", "-bash", uid=LENA, after=89_990.0),
    ]


def login(own_pid: int, name: str, now: float, connected: float) -> list[Proc]:
    """Our own session: what runs the script that asks."""
    return [
        Proc(51_003, 1130, 51_003, 51_003, "sshd", connected, 0, ("sshd: demo [priv]",)),
        Proc(51_019, 51_003, 51_003, 51_003, "sshd", connected + 0.1, UID, ("sshd: demo@notty",)),
        Proc(
            own_pid,
            51_019,
            own_pid,
            own_pid,
            "sh",
            now,
            UID,
            ("sh", "-c", 'eval "$(dd bs=1 count=900 2>/dev/null)"', name),
        ),
    ]


def family(
    pid: int, argv: tuple[str, ...], launched: float, speed: float, e: float,
    *, ranks: int = shape.RANKS, parent: int = 1, group: int | None = None, cwd: str = f"/home/{USER}", cgroup: str = SESSION,
) -> list[Proc]:  # fmt: skip
    """A server's processes at its own time `e`, launched at `launched` of the node's clock, the launcher first.

    `group`: the number of its session and process group, its own pid when None.
    """
    leader = pid if group is None else group

    def member(
        its: int, above: int, comm: str, seconds: float, args: tuple[str, ...], title: str | None = None, *,
        threads: int = 1, busy: float = 0.0, rss_mib: int = 16, state: str = "S",
    ) -> Proc:  # fmt: skip
        started = launched + seconds / speed
        return Proc(
            its, above, leader, leader, comm, started, UID, args, title, state, threads, busy, rss_mib, cwd, cgroup
        )

    out = [member(pid, parent, "python3", 0.0, argv, threads=107, busy=0.3, rss_mib=3200)]
    if e < shape.CHILDREN:
        return out
    child = pid + LAUNCHER_CHILDREN
    tracker = (PYTHON, "-c", "from multiprocessing.resource_tracker import main;main(35)")
    out.append(member(child, pid, "python3", shape.CHILDREN, tracker))
    titles = [f"sglang::scheduler_TP{rank}" for rank in range(ranks)] + ["sglang::detokenizer"]
    named = e >= shape.DISTRIBUTED
    for n, title in enumerate(titles, start=1):
        spawn = f"from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=36, pipe_handle={44 + 2 * n})"
        ranked = n <= ranks
        out.append(
            member(
                child + n, pid, title[:15] if named else "python3", shape.CHILDREN + 0.02 * n, (PYTHON, "-c", spawn, "--multiprocessing-fork"),
                title if named else None, state="R" if ranked and named else "S", threads=112 if ranked else 69,
                busy=0.97 if ranked else 0.04, rss_mib=9800 if ranked else 1400,
            )
        )  # fmt: skip
    if e >= shape.COMPILE_WORKERS:
        workers = (
            PYTHON, "/opt/venv/lib/python3.12/site-packages/torch/_inductor/compile_worker/__main__.py",
            "--pickler=torch._inductor.compile_worker.subproc_pool.SubprocPickler", "--kind=fork", "--workers=4",
            f"--parent={child + 1}", "--read-fd=140", "--write-fd=143",
        )  # fmt: skip
        pool = child + POOL
        out.append(member(pool, child + 1, "python3", shape.COMPILE_WORKERS, workers, threads=5, rss_mib=420))
        at = shape.COMPILE_WORKERS + 0.02
        out += [member(pool + offset, pool, "python3", at, workers, threads=2, rss_mib=380) for offset in POOL_WORKERS]
    return out


def read_bytes(proc: Proc, e: float) -> tuple[int, int]:
    """What a member of the server's family read by the engine's time `e`: from the disk, and by read(2).

    The checkpoint is mapped, so loading it asks for little by read(2); and nearly all of it is in memory already.
    """
    imports = min(1.0, max(0.0, e / shape.SERVER_ARGS))
    asked = int(2.1e9 * imports)
    from_disk = int(30e6 * imports)
    if proc.title is not None and "scheduler" in proc.title:
        loaded = min(1.0, max(0.0, (e - shape.WEIGHTS) / (shape.DRAFT - shape.WEIGHTS)))
        asked += int(0.2e9 * loaded)
        from_disk += int(shape.WEIGHTS_GIB * 2**30 * shape.FROM_DISK * loaded)
    return from_disk, asked

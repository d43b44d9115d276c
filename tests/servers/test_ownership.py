"""Who keeps a server, row by row: texts of real control groups, real chains of parents, real flags; and the script over real processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.servers.ownership import Kept, kept_by, why_not
from eagletui.shell.ownership import Above, Ownership, Surroundings, ask_ownership, parse_ownership
from tests.shell.sh import run

ID = "4f1c0a9b" * 8
SERVER = ("python3", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "30000")
SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"
TMUX = "0::/user.slice/user-1000.slice/user@1000.service/tmux-spawn-9a1f7c52-3f0e-4be5-9c55-1f0f8a1b2c3d.scope\n"
V1 = """12:memory:{0}
11:pids:{0}
10:devices:{0}
9:cpu,cpuacct:{0}
1:name=systemd:{0}
0::{0}
"""
PTS = 34816
_SSHD = Above(700, 1, 0, "S", 100, 0, "sshd", ("sshd: me [priv]",))
_INIT = Above(1, 0, 0, "S", 1, 0, "systemd", ("/sbin/init",))


def one(comm: str, *argv: str, pid: int = 900, tty: int = 0) -> Above:
    return Above(pid, 1, 1000, "S", 5000, tty, comm, argv or (comm,))


def facts(
    cgroup: str = SESSION, *above: Above, own: str = SESSION, argv: tuple[str, ...] = SERVER, **ns: str | None
) -> tuple[tuple[str, ...], Ownership]:
    launcher = Above(1234, 900, 1000, "S", 6000, 0, "python3", argv)
    theirs = Surroundings(
        1234, cgroup, ns.get("pid", "pid:[1]"), ns.get("mnt", "mnt:[1]"), ns.get("job"), (launcher, *above, _INIT)
    )
    ours = Surroundings(50, own, "pid:[1]", "mnt:[1]", ns.get("own_job"), (one("sh", pid=50),))
    return argv, Ownership(ours, (theirs,), "node7.example.org", frozenset({"127.0.0.1", "10.1.2.3"}), complete=True)


def kept(what: tuple[tuple[str, ...], Ownership], keepers: tuple[int, ...] = ()) -> Kept:
    return kept_by(what[0], 1234, what[1], keepers=keepers, uptime_s=100.0)


CGROUPS: tuple[tuple[str, str, str], ...] = (
    (SESSION, "nobody", ""),
    (TMUX, "nobody", ""),
    ("0::/\n", "nobody", ""),
    ("", "nobody", ""),
    (V1.format("/user.slice/user-1000.slice/session-12.scope"), "nobody", ""),
    ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", "nobody", ""),
    ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1f2e3d4c5b6a7.scope\n", "nobody", ""),
    ("0::/system.slice/ssh.service\n", "nobody", ""),
    ("0::/system.slice/sshd@3-10.0.0.1:22-10.0.0.2:51234.service\n", "nobody", ""),
    (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-7c1.scope\n",
        "nobody",
        "",
    ),
    ("0::/system.slice/sglang.service\n", "unit", "sglang.service"),
    ("0::/system.slice/system-vllm.slice/vllm@70b.service/payload\n", "unit", "vllm@70b.service"),
    (V1.format("/system.slice/sglang.service"), "unit", "sglang.service"),
    (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/sglang.service\n",
        "unit",
        "user unit sglang.service",
    ),
    ("0::/system.slice/docker.service\n", "unit", "docker.service"),
    (f"0::/system.slice/docker-{ID}.scope\n", "container", f"docker {ID[:12]}"),
    (V1.format(f"/docker/{ID}"), "container", f"docker {ID[:12]}"),
    (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container\n", "container", f"podman {ID[:12]}"),
    (V1.format(f"/machine.slice/libpod-{ID}.scope"), "container", f"podman {ID[:12]}"),
    (f"0::/system.slice/containerd.service/cri-containerd-{ID}.scope\n", "container", f"containerd {ID[:12]}"),
    (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_4000_8000_1234567890ab.slice/cri-containerd-{ID}.scope\n",
        "container",
        "Kubernetes pod 1b2c3d4e_0000_4000_8000_1234567890ab",
    ),
    (V1.format(f"/kubepods/besteffort/pod1b2c3d4e-0000-4000-8000-1234567890ab/{ID}"), "container", "Kubernetes pod 1b2c3d4e-0000-4000-8000-1234567890ab"),
    ("0::/lxc.payload.gpu1/system.slice/x.service\n", "container", "lxc gpu1"),
    ("0::/machine.slice/systemd-nspawn@lab.service/payload\n", "container", "nspawn lab"),
    ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "slurm", "4711"),
    (V1.format("/slurm/uid_1000/job_4711/step_batch"), "slurm", "4711"),
)  # fmt: skip


@pytest.mark.parametrize(("cgroup", "kind", "name"), CGROUPS)
def test_control_groups(cgroup: str, kind: str, name: str) -> None:
    found = kept(facts(cgroup, _SSHD))
    assert (found.kind, found.name) == (kind, name)


@pytest.mark.parametrize("cgroup", [text for text, kind, _ in CGROUPS if kind in {"unit", "container", "slurm"}])
def test_what_our_own_shell_stands_in_too_keeps_nothing(cgroup: str) -> None:
    assert kept(facts(cgroup, _SSHD, own=cgroup)).kind == "nobody"


BASH = one("bash", "-bash", tty=PTS)
CONDA = one("conda", "/opt/conda/bin/python", "/opt/conda/bin/conda", "run", "-n", "sgl", "python", "-m", "x", pid=901)
PARENTS: tuple[tuple[str, tuple[Above, ...], str, str], ...] = (
    ("nohup from a script that ended", (), "nobody", ""),
    ("sshd", (_SSHD,), "nobody", ""),
    ("systemd --user adopts orphans", (one("systemd", "/usr/lib/systemd/systemd", "--user"),), "nobody", ""),
    ("tmux runs it", (one("tmux: server", "tmux", "new", "-d", "python3"),), "nobody", ""),
    ("screen runs it", (one("screen", "SCREEN", "-dmS", "x", "python3"),), "nobody", ""),
    ("an interactive shell", (BASH, _SSHD), "shell", "bash"),
    ("zsh of VS Code", (one("zsh", "/usr/bin/zsh", "-i", tty=PTS), one("node", "node", "ptyHost")), "shell", "zsh"),
    (
        "bash of VS Code",
        (one("bash", "/bin/bash", "--init-file", "/home/me/.vscode-server/x/shellIntegration-bash.sh", tty=PTS), one("node", "node")),
        "shell",
        "bash",
    ),
    ("mosh", (one("bash", "-bash", tty=PTS), one("mosh-server", "mosh-server", "new")), "shell", "bash"),
    ("uv run", (one("uv", "uv", "run", "python", "-m", "sglang.launch_server"), BASH), "shell", "bash"),
    ("conda run", (one("bash", "/bin/bash", "/tmp/tmpq1w2e3", pid=902), CONDA, BASH), "shell", "bash"),
    ("timeout", (one("timeout", "timeout", "1h", *SERVER), _SSHD), "nobody", ""),
    ("a script", (one("run.sh", "/bin/bash", "/home/me/run.sh", "--tp", "8", tty=PTS), BASH), "script", "run.sh"),
    ("a loop", (one("bash", "bash", "-c", "while true; do python3 -m x; done", tty=PTS), BASH), "script", "bash -c while true; do python3 -m x; done"),
    ("a shell that reads a script", (one("bash", "bash", "-s"),), "script", "bash -s"),
    ("a shell without a terminal", (one("bash", "bash"),), "script", "bash"),
    ("supervisord", (one("supervisord", "/usr/bin/python3", "/usr/bin/supervisord", "-n"),), "script", "supervisord"),
    ("a notebook", (one("sh", "sh", "-c", "python3 -m x"), one("python3", "python3", "-m", "ipykernel_launcher")), "script", "sh -c python3 -m x"),
    ("a watchdog with a key", (one("watch.py", "python3", "/srv/watch.py", "--api-key", "sk-secret"),), "script", "watch.py"),
    ("our keeper", (one("sh", "sh", "-c", "x", pid=880),), "keeper", "eagletui"),
)  # fmt: skip


@pytest.mark.parametrize(("above", "kind", "name"), [row[1:] for row in PARENTS], ids=[row[0] for row in PARENTS])
def test_parents(above: tuple[Above, ...], kind: str, name: str) -> None:
    found = kept(facts(SESSION, *above), keepers=(880,))
    assert (found.kind, found.name) == (kind, name)
    if kind == "script":
        assert (found.pid, found.since_s) == (above[0].pid, 50.0)
        assert why_not(found) is None, "it is asked about, not refused"


def test_a_terminal_in_a_unit_is_a_persons_and_not_the_units() -> None:
    tunnel = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/code-tunnel.service\n"
    assert kept(facts(tunnel, BASH, one("node", "node"))).kind == "shell"
    assert kept(facts(tunnel, one("node", "node"))).kind == "unit"


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (("--nnodes", "2", "--node-rank", "0"), "--nnodes 2"),
        (("--nnodes=1", "--node-rank=0"), None),
        (("--node-rank", "1"), "--node-rank 1"),
        (("--node_rank=3",), "--node-rank 3"),
        (("--dist-init-addr", "10.1.2.9:5000"), "--dist-init-addr 10.1.2.9:5000 is another machine's"),
        (("--dist-init-addr", "10.1.2.3:5000"), None),
        (("--dist-init-addr", "127.0.0.1:5000"), None),
        (("--dist-init-addr=[::1]:5000",), None),
        (("--dist-init-addr", "node7:5000"), None),
        (("--dist-init-addr", "node7.example.org:5000"), None),
        (("--dist-init-addr", "node8:5000"), "--dist-init-addr node8:5000 is another machine's"),
        (("--distributed-executor-backend", "ray"), "its workers run in Ray"),
        (("--distributed-executor-backend", "mp"), None),
        (("--data-parallel-address", "10.9.9.9"), "--data-parallel-address 10.9.9.9 is another machine's"),
    ],
)
def test_one_rank_of_many(flags: tuple[str, ...], name: str | None) -> None:
    found = kept(facts(SESSION, BASH, argv=(*SERVER, *flags)))
    assert (found.kind, found.name) == (("shell", "bash") if name is None else ("ranks", name))


def test_a_server_inside_ray_is_one_of_many() -> None:
    assert kept(facts(SESSION, one("ray::Serve", "ray::ServeReplica"), one("raylet", "/x/raylet"))).kind == "ranks"


def test_other_namespaces_and_jobs() -> None:
    assert kept(facts(SESSION, BASH, pid="pid:[2]")) == Kept("container", "another pid namespace")
    assert kept(facts(SESSION, BASH, mnt="mnt:[2]")) == Kept("container", "another mount namespace")
    assert kept(facts(SESSION, BASH, mnt=None, pid=None)).kind == "shell"
    assert kept(facts(SESSION, BASH, job="12")) == Kept("slurm", "12")
    assert kept(facts(SESSION, BASH, job="12", own_job="12")).kind == "shell"
    assert kept(facts(SESSION, BASH, job="; rm")).kind == "shell"
    assert kept_by(SERVER, 99, Ownership(complete=True)).kind == "unseen"


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        (Kept("unit", "sglang.service"), "systemd-unit", "systemctl restart sglang.service"),
        (Kept("unit", "user unit x.service"), "systemd-unit", "systemctl --user restart x.service"),
        (Kept("unit", "sglang.service"), "systemd-unit", 'launcher = "systemd" and handle = "sglang.service"'),
        (Kept("container", "docker 0123"), "container", "docker restart 0123"),
        (Kept("container", "docker 0123"), "container", 'launcher = "docker" and handle ='),
        (Kept("container", "Kubernetes pod 1b2c"), "container", "deleting the pod"),
        (Kept("container", "another mount namespace"), "container", "mount namespace"),
        (Kept("slurm", "4711"), "slurm", "srun --overlap --jobid 4711"),
        (Kept("ranks", "--nnodes 2"), "rank-of-many", "hangs the others"),
        (Kept("unseen", "x"), "unseen-listener", "Log in as"),
        (Kept("nobody"), None, ""),
        (Kept("keeper", "eagletui"), None, ""),
        (Kept("shell", "bash"), None, ""),
    ],
)
def test_what_is_refused_says_what_to_do(found: Kept, code: str | None, says: str) -> None:
    reason = why_not(found)
    assert (None if reason is None else reason[0]) == code
    assert reason is None or says in reason[1]


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="nodes are Linux")
@pytest.mark.parametrize("shell", ["dash", "bash-as-sh", "busybox"])
def test_the_script_tells_of_real_processes(shell: str, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], env={"SLURM_JOB_ID": "77", "SECRET": "sk-canary\nSLURM_JOB_ID=78"}) as child:
        try:
            status, said, _ = run(ask_ownership((child.pid, os.getpid(), 2**22 + 1)), tmp_path, shell)
        finally:
            child.kill()
    assert status == 0
    assert b"canary" not in said
    assert b"canary".hex().encode() not in said
    found = parse_ownership(said)
    assert found.complete
    assert found.own is not None
    assert [one.pid for one in found.others] == [child.pid, os.getpid()]
    seen = found.others[0]
    assert seen.cgroup == Path("/proc/self/cgroup").read_text()
    assert seen.mnt_ns == str(Path("/proc/self/ns/mnt").readlink())
    assert seen.job == "77"
    assert [one.pid for one in seen.above[:2]] == [child.pid, os.getpid()]
    assert os.getpid() in [one.pid for one in found.own.above]
    assert seen.above[0].argv == ("sleep", "60")
    assert seen.above[0].uid == os.getuid()
    assert {"127.0.0.1"} <= found.addresses
    assert found.host == Path("/proc/sys/kernel/hostname").read_text().strip()


@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from(
            [
                b"of 1\n",
                b"cgroup 61\n",
                b"ns a b\n",
                b"above 1 2 3 S 4 5 61 61\n",
                b"host zz\n",
                b"address 1.2.3.4\n",
                b"done\n",
            ]
        )
    ).map(b"".join)
)
def test_its_answer_is_read_whatever_comes(output: bytes) -> None:
    found = parse_ownership(output)
    for one_ in found.others:
        kept_by(SERVER, one_.pid, found)


@given(st.text(max_size=200))
def test_any_text_of_control_groups_is_read(text: str) -> None:
    kept(facts(text, BASH))

"""The simulated node's files: directories, files that grow, who may write them, and how much room there is. In memory; pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from eagletui.demo.logfile import LogFile

Kind = Literal["directory", "file", "character"]
DISK: Final = 66_309
"""Device numbers, as stat prints them: the disk's, then those of the file systems in memory."""
MEMORY: Final = 25
DISK_ROOM: Final = (855_029_376, 1_874_804_736, 468_211_004, 468_713_472)
SHM_ROOM: Final = (252_052_992, 264_192_000, 264_190_118, 264_192_000)
"""See Files.room."""


PROGRAMS: Final = (
    "sh", "bash", "env", "setsid", "tmux", "nvidia-smi", "curl", "python3", "systemctl", "systemd-run", "od", "tr", "sed", "cat", "nice", "tail",
    "head", "mkdir", "rm", "mv", "cp", "taskset", "readlink", "stat", "timeout",
)  # fmt: skip
"""In /usr/bin."""
SHARD_BYTES: Final = 9_663_676_416
MODEL_FILES: Final = {
    "kimi-k2.5-int4": [f"model-{n:05}-of-00064.safetensors" for n in range(1, 65)],
    "kimi-k2.5-eagle3": ["model.safetensors"],
}
"""Of each model in /shared, the files of its weights."""


class FileError(Exception):
    """What a system call on the simulated node fails with: its words ("No such file or directory")."""


NO_ENTRY: Final = "No such file or directory"
EXISTS: Final = "File exists"
NO_DIRECTORY: Final = "Not a directory"
IS_DIRECTORY: Final = "Is a directory"
NOT_EMPTY: Final = "Directory not empty"
DENIED: Final = "Permission denied"
READ_ONLY: Final = "Read-only file system"


@dataclass(slots=True)
class Entry:
    """One name. `mode` as in 0o644; `mtime` in unix seconds; `log` holds the bytes of a file; `nominal`
    is the size of one whose bytes nobody reads.
    """

    kind: Kind
    uid: int
    mode: int
    inode: int
    mtime: float
    log: LogFile | None = None
    nominal: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        if self.nominal:
            return self.nominal
        return self.log.size if self.log is not None else 4096 if self.kind == "directory" else 0

    @property
    def data(self) -> bytes:
        """All of a small file."""
        return self.log.read(0, self.log.size) if self.log is not None else b""


class Files:
    """A tree of absolute paths. Links are none; `..` is resolved by the text."""

    def __init__(self, at: float) -> None:
        self._entries: dict[str, Entry] = {}
        self._inode = 5_244_100
        self.read_only = ""
        """What is below this directory cannot be written any more."""
        self._put("/", "directory", 0, 0o755, at)

    def _put(self, path: str, kind: Kind, uid: int, mode: int, at: float) -> Entry:
        self._inode += 7
        made = Entry(kind, uid, mode, self._inode, at, LogFile() if kind == "file" else None)
        self._entries[path] = made
        return made

    @staticmethod
    def clean(path: str) -> str:
        """Its one name."""
        return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else ""

    def get(self, path: str) -> Entry | None:
        """What has this name; None where nothing has (a relative path has none)."""
        return self._entries.get(self.clean(path))

    def is_directory(self, path: str) -> bool:
        """Whether there is one."""
        found = self.get(path)
        return found is not None and found.kind == "directory"

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted."""
        base = self.clean(path).rstrip("/") + "/"
        return sorted(
            one[len(base) :]
            for one in self._entries
            if one != "/" and one.startswith(base) and "/" not in one[len(base) :]
        )

    def walk(self, path: str) -> Iterator[tuple[str, Entry]]:
        """It and everything below it, by path."""
        base = self.clean(path)
        for one in sorted(self._entries):
            if one == base or one.startswith(base.rstrip("/") + "/"):
                yield one, self._entries[one]

    def may_write(self, path: str, uid: int) -> bool:
        """Whether this user may write what is there: owner, or everybody (0o002); root always."""
        found = self.get(path)
        if self.is_read_only(path):
            return False
        return found is not None and (uid == 0 or bool(found.mode & (0o200 if found.uid == uid else 0o002)))

    def is_read_only(self, path: str) -> bool:
        """Whether its file system is."""
        return bool(self.read_only) and (self.clean(path) + "/").startswith(self.read_only + "/")

    def may_read(self, path: str, uid: int) -> bool:
        """Whether this user may read what is there."""
        found = self.get(path)
        return found is not None and (uid == 0 or bool(found.mode & (0o400 if found.uid == uid else 0o004)))

    def _parent(self, path: str, uid: int) -> None:
        above = posixpath.dirname(path)
        found = self.get(above)
        if found is None:
            raise FileError(NO_ENTRY)
        if found.kind != "directory":
            raise FileError(NO_DIRECTORY)
        if not self.may_write(above, uid):
            raise FileError(READ_ONLY if self.is_read_only(above) else DENIED)

    def make_directory(self, path: str, uid: int, at: float, mode: int = 0o755, *, parents: bool = False) -> Entry:
        """mkdir; with `parents` as `mkdir -p`. Raises FileError."""
        clean = self.clean(path)
        found = self.get(clean)
        if found is not None:
            if parents and found.kind == "directory":
                return found
            raise FileError(EXISTS)
        above = posixpath.dirname(clean)
        if parents and clean and self.get(above) is None:
            self.make_directory(above, uid, at, parents=True)
        self._parent(clean, uid)
        return self._put(clean, "directory", uid, mode, at)

    def write(
        self, path: str, data: bytes, uid: int, at: float, mode: int = 0o644, *, exclusive: bool = False
    ) -> Entry:
        """A file with these bytes, in the place of the one that was there (`exclusive`: as `set -C`, never). Raises FileError."""
        clean = self.clean(path)
        found = self.get(clean)
        if found is not None and exclusive:
            raise FileError(EXISTS)
        if found is not None and found.kind == "directory":
            raise FileError(IS_DIRECTORY)
        if found is None:
            self._parent(clean, uid)
            found = self._put(clean, "file", uid, mode, at)
        elif not self.may_write(clean, uid):
            raise FileError(DENIED)
        found.log = LogFile()
        found.log.append(data)
        found.mtime = at
        return found

    def rename(self, old: str, new: str, uid: int) -> None:
        """mv of a file or a whole directory, over what is there. Raises FileError."""
        source, target = self.clean(old), self.clean(new)
        if self.get(source) is None:
            raise FileError(NO_ENTRY)
        self._parent(source, uid)
        self._parent(target, uid)
        for path, entry in list(self.walk(source)):
            del self._entries[path]
            self._entries[target + path[len(source) :]] = entry

    def remove(self, path: str, uid: int) -> None:
        """rm -f of a file, rmdir of an empty directory. Raises FileError."""
        clean = self.clean(path)
        found = self.get(clean)
        if found is None:
            raise FileError(NO_ENTRY)
        if found.kind == "directory" and self.names(clean):
            raise FileError(NOT_EMPTY)
        self._parent(clean, uid)
        sticky = self.get(posixpath.dirname(clean))
        if sticky is not None and sticky.mode & 0o1000 and uid not in {0, found.uid, sticky.uid}:
            raise FileError("Operation not permitted")
        del self._entries[clean]

    def room(self, path: str) -> tuple[int, int, int, int]:
        """Of its file system: blocks of 4 KiB that are free and in all, inodes that are free and in all."""
        return SHM_ROOM if self.clean(path).startswith("/dev/shm") else DISK_ROOM  # noqa: S108 - a simulated path

    def device(self, path: str) -> int:
        """Its file system's number."""
        return MEMORY if self.clean(path).startswith("/dev/") else DISK


def furnished(at: float, users: dict[str, int]) -> Files:
    """The directories of the node, and the programs, models and files that its stories need."""
    files = Files(at)
    for path in (
        "/bin", "/usr", "/usr/bin", "/opt", "/opt/venv", "/opt/venv/bin", "/shared", "/home", "/root", "/dev", "/proc", "/etc", "/run",
        "/run/user", "/var", "/var/log",
    ):  # fmt: skip
        files.make_directory(path, 0, at)
    for path in ("/tmp", "/dev/shm", "/var/tmp"):  # noqa: S108 - simulated paths
        files.make_directory(path, 0, at, 0o1777)
    files.make_directory("/data", 0, at, 0o777)
    for name, uid in users.items():
        if uid >= 1000:
            files.make_directory(f"/home/{name}", 0, at, 0o755).uid = uid
    for model, names in MODEL_FILES.items():
        files.make_directory(f"/shared/{model}", 0, at)
        files.write(f"/shared/{model}/config.json", b"{}\n", 0, at)
        for name in names:
            files.write(f"/shared/{model}/{name}", b"", 0, at).nominal = SHARD_BYTES
    files.make_directory("/data/eagle3", users["demo"], at)
    files.write("/opt/venv/bin/sglang", b"#!/opt/venv/bin/python3\n", 0, at, 0o755)
    programs = [
        "/opt/venv/bin/python3",
        "/opt/venv/bin/python",
        "/bin/sh",
        "/bin/bash",
        *(f"/usr/bin/{name}" for name in PROGRAMS),
    ]
    for program in programs:
        files.write(program, b"\x7fELF", 0, at, 0o755)
    files._put("/dev/null", "character", 0, 0o666, at)
    return files


def find_program(files: Files, name: str, path: str, cwd: str) -> tuple[str, str]:
    """As execvp finds it: where, and found, absent, directory or denied."""
    if not name:
        return name, "absent"
    folders = [posixpath.join(cwd, folder) if folder else cwd for folder in path.split(":")]
    places = [posixpath.join(cwd, name)] if "/" in name else [f"{folder}/{name}" for folder in folders]
    denied = ""
    for place in places:
        found = files.get(place)
        if found is not None and found.kind == "directory" and "/" in name:
            return place, "directory"
        if found is not None and found.kind == "file":
            if found.mode & 0o111:
                return place, "found"
            denied = denied or place
    return (denied, "denied") if denied else (places[0] if "/" in name else name, "absent")


def interpreter_of(files: Files, program: str) -> str:
    """Of a script, what its first line names."""
    entry = files.get(program)
    found = re.match(rb"#![ \t]*([^ \t\n]+)", entry.data if entry is not None else b"")
    return found[1].decode("utf-8", "surrogateescape") if found else ""

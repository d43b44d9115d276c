"""Every process that begins below another one, as the kernel tells it (the process connector): none is too short to be seen. Needs root and Linux."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

_CONNECTOR = 11
"""NETLINK_CONNECTOR."""
_PROCESSES = 1
"""The connector's process events: their index, value and multicast group."""
_LISTEN = 1
_BUFFER = 4 << 20
_FORKED, _BECAME = 1, 2
_EVENT = struct.Struct("=IIQII")
"""What, processor, time, process id, thread group; behind the headers of netlink (16 bytes) and of the connector (20)."""
_CHILD = struct.Struct("=II")


class Starts:
    """Counts from now until close(), below the processes `roots`. Raises OSError where the kernel does not tell."""

    def __init__(self, roots: set[int]) -> None:
        self._family = set(roots)
        self._names: dict[int, list[str]] = {}
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _CONNECTOR)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.bind((0, _PROCESSES))
            body = struct.pack("=IIIIHHI", _PROCESSES, _PROCESSES, 0, 0, 4, 0, _LISTEN)
            self._socket.send(struct.pack("=IHHII", 16 + len(body), 3, 0, 0, os.getpid()) + body)
            self._socket.settimeout(0.1)
        except OSError:
            self._socket.close()
            raise
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                self._take(self._socket.recv(4096))

    def _take(self, event: bytes) -> None:
        if len(event) < 36 + _EVENT.size:
            return
        what, _, _, _, group = _EVENT.unpack_from(event, 36)
        if what == _FORKED and group in self._family:
            child, child_group = _CHILD.unpack_from(event, 36 + _EVENT.size)
            if child == child_group:  # else it is a thread
                self._family.add(child)
                self._names[child] = [f"a copy of {_name_of(group)}"]
        elif what == _BECAME and group in self._names:
            self._names[group].append(_name_of(group))

    def close(self) -> Counter[str]:
        """End it: how many processes of each kind began. The last program that a process became is its kind."""
        self._over.set()
        self._thread.join(5)
        self._socket.close()
        return Counter(names[-1] for names in self._names.values())


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "one that was gone"

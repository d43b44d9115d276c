"""An HTTP server whose paths are ways to behave: /ok, /busy, /silent, /endless …"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BODY = b"# HELP x\n\x00\xff\r\n{}\n"


class Talk(socketserver.BaseRequestHandler):
    """One connection; its path says how it behaves."""

    def handle(self) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked and (more := self.request.recv(65536)):
            asked += more
        path = asked.split(b" ")[1].decode() if b" " in asked else ""
        Server.seen.append(asked)
        Server.open += 1
        Server.most = max(Server.most, Server.open)
        try:
            with suppress(ConnectionError):
                getattr(self, path.strip("/").partition("?")[0])()
        finally:
            Server.open -= 1

    def ok(self) -> None:
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY))

    def busy(self) -> None:
        self.request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy")

    def elsewhere(self) -> None:
        self.request.sendall(b"HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        pass

    def reset(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def late(self) -> None:
        time.sleep(0.3)
        self.ok()

    def silent(self) -> None:
        self.request.recv(1)

    def drip(self) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" * 100:
            self.request.sendall(bytes((byte,)))
            time.sleep(0.1)

    def cut(self) -> None:
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")

    def endless(self) -> None:
        self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            self.request.sendall(b"x" * 65536)

    def junk(self) -> None:
        self.request.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    seen: list[bytes] = []  # noqa: RUF012 - one list for all connections
    open = 0
    most = 0


class Server6(Server):
    address_family = socket.AF_INET6


@contextmanager
def serving(kind: type[Server], host: str) -> Iterator[int]:
    with kind((host, 0), Talk) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join(10)

"""The proxy breaks connections as it says: other tests build on it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.blackhole import Proxy, proxied


@contextlib.contextmanager
def echo() -> Iterator[int]:
    """A server that answers each chunk with itself."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            while chunk := sock.recv(65536):
                sock.sendall(chunk)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with echo() as port, proxied(port) as proxy:
        yield proxy


def said(sock: socket.socket, words: bytes) -> bytes:
    sock.sendall(words)
    return sock.recv(100)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def test_forwards_both_ways_and_ends_with_either_side(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        big = b"x" * 3_000_000
        threading.Thread(target=sock.sendall, args=(big,), daemon=True).start()
        got = 0
        while got < len(big):
            got += len(sock.recv(65536))
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(10) == b""


def test_a_black_hole_is_silent_closes_nothing_and_delivers_later(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        proxy.black_hole()
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            said(sock, b"two")
        with connect(proxy) as late:
            late.settimeout(0.3)
            with pytest.raises(TimeoutError):
                said(late, b"three")
            proxy.forward()
            late.settimeout(5)
            assert late.recv(10) == b"three"
        sock.settimeout(5)
        assert sock.recv(10) == b"two"


def test_dropped_connections_are_reset_and_new_ones_work(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        proxy.drop()
        with pytest.raises(ConnectionResetError):
            sock.recv(10)
        assert proxy.connections == 0
    with connect(proxy) as sock:
        assert said(sock, b"two") == b"two"


def test_a_black_hole_can_be_dropped(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        proxy.black_hole()
        sock.sendall(b"two")
        with connect(proxy) as silent:
            silent.sendall(b"three")
            time.sleep(0.1)
            proxy.drop()
            for one in (sock, silent):
                with pytest.raises(ConnectionResetError):
                    one.recv(10)


def test_refuses_and_listens_again_on_the_same_port(proxy: Proxy) -> None:
    port = proxy.port
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        proxy.refuse()
        assert said(sock, b"two") == b"two"
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.forward()
        with connect(proxy) as again:
            assert proxy.port == port
            assert said(again, b"three") == b"three"


def test_delays_each_direction_and_not_the_rate(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        proxy.delay(0.2)
        began = time.monotonic()
        assert said(sock, b"two") == b"two"
        assert 0.4 <= time.monotonic() - began < 3
        began = time.monotonic()
        for _ in range(20):
            sock.sendall(b"x")
            time.sleep(0.01)
        got = b""
        while len(got) < 20:
            got += sock.recv(100)
        assert time.monotonic() - began < 3


def test_ends_connections_in_order(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert said(sock, b"one") == b"one"
        proxy.end()
        assert sock.recv(10) == b""
    with connect(proxy) as sock:
        assert said(sock, b"two") == b"two"


def test_abandoned_connections_stay_silent_and_new_ones_are_not(proxy: Proxy) -> None:
    with connect(proxy) as old:
        assert said(old, b"one") == b"one"
        proxy.abandon()
        old.sendall(b"two")
        with connect(proxy) as new:
            assert said(new, b"three") == b"three"
        proxy.forward()
        old.settimeout(0.3)
        with pytest.raises(TimeoutError):
            old.recv(10)

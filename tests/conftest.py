"""Fixtures that any test may use. A session fixture must be made known here once: imported twice, it would be made
twice."""

from __future__ import annotations

import os

import pytest

from tests.sshd import open_folder, ssh_key, sshd_server, sshd_users

__all__ = ["open_folder", "ssh_key", "sshd_server", "sshd_users"]

SLOW = "EAGLETUI_SLOW"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked `slow` repeats a test in another setting, or takes very long: it runs with EAGLETUI_SLOW=1."""
    if os.environ.get(SLOW):
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason=f"slow: {SLOW}=1 runs it"))

"""Fixtures that any test may use. A session fixture must be made known here once: imported twice, it would be made
twice."""

from __future__ import annotations

from tests.sshd import open_folder, ssh_key, sshd_server, sshd_users

__all__ = ["open_folder", "ssh_key", "sshd_server", "sshd_users"]

"""Our own questions in a server's access log: they are folded away, and are no sign of life."""

from __future__ import annotations

import re

from eagletui.logs.events import ProbeLine

_PROBE = re.compile(
    r"(?P<client>127\.0\.0\.1|::1|\[::1\]|localhost):[0-9]+ - "
    r'"GET (?P<path>/[a-z_0-9/]*)(?:\?[^" ]*)? HTTP/[0-9.]+" (?P<status>[0-9]{3})'
)
PROBE_PATHS = frozenset(
    (
        "/health",
        "/health_generate",
        "/ready",
        "/ping",
        "/metrics",
        "/server_info",
        "/get_server_info",
        "/model_info",
        "/get_model_info",
        "/v1/models",
        "/version",
        "/load",
        "/get_load",
        "/v1/loads",
    )
)
"""What we ask a server. Only GETs are ours."""


def probe_in(text: str) -> ProbeLine | None:
    """The request that an access-log line tells of, when it is one of our own kind."""
    if '"GET /' not in text:
        return None
    found = _PROBE.match(text)
    if found is None or found["path"] not in PROBE_PATHS:
        return None
    return ProbeLine(found["path"], int(found["status"]))

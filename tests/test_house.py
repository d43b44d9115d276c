"""The house holds: which room may import which, pure rooms stay pure, heavy libraries stay where they belong, files stay readable."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "eagletui"
HEAVY = ("asyncio", "textual", "rich", "asyncssh", "httpx", "httpcore", "plotext", "pydantic")
PURE = ("shell", "engines", "gpus", "logs", "servers")

BELOW: dict[str, set[str]] = {
    "shell": set(),
    "engines": set(),
    "gpus": set(),
    "logs": {"engines", "gpus", "shell"},
    "servers": {"logs", "engines", "gpus", "shell"},
    "nodes": {"shell"},
    "config": set(),
    "history": {"config", "servers", "logs", "engines", "gpus", "shell"},
    "monitor": {"config", "nodes", "history", "servers", "logs", "engines", "gpus", "shell"},
    "launching": {"config", "nodes", "history", "servers", "logs", "engines", "gpus", "shell"},
    "bench": {"config", "nodes", "history", "launching", "servers", "logs", "engines", "gpus", "shell"},
    "notify": {"config", "servers", "logs", "engines", "gpus", "shell"},
    "demo": {"nodes", "shell", "gpus", "engines"},
    "ui": {"config", "monitor", "launching", "bench", "history", "notify", "servers", "logs", "engines", "gpus", "shell"},
    "cli": {
        "config", "ui", "monitor", "launching", "bench", "history", "notify", "nodes", "demo", "servers", "logs", "engines", "gpus", "shell",
    },
}  # fmt: skip
"""Room to the rooms it may import. `eagletui.errors` (the error tree) and `eagletui` (the version) are free to all above the pure rooms."""


def files(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


def imports(path: Path) -> list[tuple[str, bool]]:
    """Modules that a file imports, with whether only for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            typing_only.update(n for child in node.body for n in ast.walk(child))
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(a.name, node in typing_only) for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, node in typing_only))
    return found


def test_every_room_is_listed() -> None:
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir() and not p.name.startswith(("_", "."))}
    assert rooms == set(BELOW)


@pytest.mark.parametrize("room", sorted(BELOW))
def test_arrows_point_down(room: str) -> None:
    allowed = BELOW[room] | {room}
    wrong = []
    for path in files(room):
        for module, _ in imports(path):
            parts = module.split(".")
            if parts[0] != "eagletui" or len(parts) == 1:
                continue
            if parts[1] == "errors" and room not in {"shell", "engines", "gpus"}:
                continue
            if parts[1] not in allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong


def test_widgets_know_only_textual() -> None:
    wrong = [
        f"{path.name} imports {module}"
        for path in files("ui/widgets")
        for module, _ in imports(path)
        if module.startswith("eagletui.") and not module.startswith("eagletui.ui.widgets")
    ]
    assert not wrong


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_import_nothing_heavy(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files(room)
        for module, _ in imports(path)
        if module.split(".")[0] in HEAVY
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("library", "owners"),
    [
        ("asyncssh", {"nodes/ssh.py", "nodes/ssh_login.py", "nodes/ssh_refusal.py", "demo/server.py"}),
        ("plotext", {"ui/widgets/chart.py"}),
    ],
)
def test_libraries_with_few_owners(library: str, owners: set[str]) -> None:
    importers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for module, typing_only in imports(path)
        if module.split(".")[0] == library and not typing_only
    }
    assert importers <= owners


def loaded(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return {m.split(".")[0] for m in done.stdout.split()}


def test_version_imports_no_library() -> None:
    modules = loaded("sys.argv = ['eagletui', '--version']\nfrom eagletui.__main__ import main\nmain()")
    assert not modules & {*HEAVY, "click", "argparse"}


def test_help_imports_nothing_heavy() -> None:
    modules = loaded(
        "sys.argv = ['eagletui', '--help']\nfrom eagletui.__main__ import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert "click" in modules
    assert not modules & set(HEAVY)


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_load_nothing_heavy(room: str) -> None:
    names = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in files(room)]
    modules = loaded("\n".join(f"import {n}" for n in names))
    assert not modules & (set(HEAVY) - {"asyncio"})
    assert "eagletui" in modules


def test_the_demo_is_a_node_not_a_mode() -> None:
    allowed = ("demo/", "cli/", "nodes/registry.py")
    wrong = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if not str(path.relative_to(PACKAGE)).startswith(allowed)
        and re.search(r"\bdemo\b", path.read_text(encoding="utf-8"))
    ]
    assert not wrong


def test_nothing_is_raised_in_except_star() -> None:
    """Before Python 3.11.4 it comes out in a group, and whoever catches it by its type does not: a lost link would
    end the watch for good.
    """
    wrong = [
        f"{path.relative_to(ROOT)}:{raised.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.TryStar)
        for handler in node.handlers
        for raised in ast.walk(handler)
        if isinstance(raised, ast.Raise) and raised.exc is not None
    ]
    assert not wrong


def test_files_stay_readable() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in PACKAGE.rglob("*.py")
        if (n := len(p.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long


def test_nothing_speaks_of_where_it_was_made() -> None:
    banned = ("../" + "shared", "/work" + "/main", "/work" + "/shared", ".lib" + "rary")
    wrong = [
        str(path.relative_to(ROOT))
        for folder in ("eagletui", "tests", "themes")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".toml", ".md", ".tcss"}
        and any(b in path.read_text(encoding="utf-8", errors="replace") for b in banned)
    ]
    assert not wrong

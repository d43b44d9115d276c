"""The wheel holds everything: built, installed away from the sources, and run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, and nothing else of ours."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run(installed: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command with the installed package first; libraries come from this interpreter."""
    env = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, env=env, cwd=installed, timeout=60, check=False
    )


def test_themes_and_data_are_inside(installed: Path) -> None:
    assert len(list((installed / "eagletui" / "_themes").glob("*.toml"))) >= 4
    assert (installed / "eagletui" / "py.typed").exists()
    assert list((installed / "eagletui" / "demo" / "recordings").glob("*.zst"))
    assert list((installed / "eagletui" / "ui").glob("*.tcss"))
    assert not (installed / "tests").exists()


def test_it_runs_away_from_its_sources(installed: Path) -> None:
    where = run(installed, "-c", "import eagletui; print(eagletui.__file__)")
    assert where.stdout.startswith(str(installed))
    themes = run(installed, "-m", "eagletui", "themes")
    assert (themes.returncode, themes.stderr) == (0, "")
    assert len(themes.stdout.splitlines()) >= 4
    demo = run(installed, "-m", "eagletui", "status", "demo", "--speed", "100")
    assert demo.returncode in (0, 10), demo.stderr
    assert "H200" in demo.stdout

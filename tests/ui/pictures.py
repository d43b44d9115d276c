"""Draw the scenes: `python -m tests.ui.pictures FOLDER [SCENE…] [--theme NAME] [--size WxH]`. PNG where rsvg-convert is installed."""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
from pathlib import Path

from eagletui.ui.app import EagleApp
from tests.ui.experiment_scenes import EXPERIMENTS
from tests.ui.launch_scenes import LAUNCHES
from tests.ui.restart_scenes import RESTARTS
from tests.ui.scenes import NOW, SCENES, FakeSource

ALL = {
    **SCENES,
    **LAUNCHES,
    **{name: scene.snapshot for name, scene in RESTARTS.items()},
    **{name: scene.snapshot for name, scene in EXPERIMENTS.items()},
}

SIZES = ((160, 48), (120, 36), (80, 24))


_TEXT = re.compile(r'x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>((?:&#160;)+)')
_BRAILLE = re.compile(r'<text([^>]*?)x="([\d.]+)"([^>]*)>([^<]*[\u2801-\u28ff][^<]*)</text>')
_CELL = 12.2
"""Width of a cell in Rich's pictures."""


def _for_rsvg(svg: str) -> str:
    """rsvg drops leading no-break spaces although they are part of textLength: move such a text instead."""

    def move(found: re.Match[str]) -> str:
        cells = found[5].count("&#160;")
        x, length = float(found[1]) + cells * _CELL, float(found[3]) - cells * _CELL
        return f'x="{x:.1f}" y="{found[2]}" textLength="{max(length, 0):.1f}"{found[4]}>'

    svg = _BRAILLE.sub(_each_cell, _TEXT.sub(move, svg))
    return svg.replace(
        "font-size: 20px", "font-size: 20.27px"
    )  # DejaVu's advance, so that it fills a cell as Fira Code does


def _each_cell(found: re.Match[str]) -> str:
    """The fallback font's braille has another width than a cell: a text for each."""
    x = float(found[2])
    cells = found[4].replace("&#160;", " ")
    return "".join(
        f'<text{found[1]}x="{x + i * _CELL:.1f}"{found[3]}>{c}</text>' for i, c in enumerate(cells) if c != " "
    )


async def draw(folder: Path, scene: str, size: tuple[int, int], theme: str, keys: list[str]) -> Path:
    """One picture."""
    restart = RESTARTS.get(scene)
    operator = restart.operator() if restart is not None else None
    experiment = EXPERIMENTS.get(scene)
    led = restart.keys if restart is not None else experiment.keys if experiment is not None else ()
    keys = [*led, *keys]
    clock = [NOW]
    app = EagleApp(
        FakeSource(ALL[scene]()), node_name="gpu-node", theme=theme, clock=lambda: clock[0], operator=operator
    )
    if experiment is not None:
        experiment.fit_out(app)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
            if working := [one for one in app.workers if one.name != "benchmark"]:
                await app.workers.wait_for_complete(working)
            await pilot.pause()
        if experiment is not None:
            experiment.end(app)
            clock[0] += 2.0  # a chart is drawn once a second
            app._show()
        await pilot.pause(0.2)
        svg = app.export_screenshot(title="eagletui")
    name = f"{scene}-{theme}-{size[0]}x{size[1]}{''.join('-' + k for k in keys) if not led else ''}".replace(
        "?", "help"
    )
    path = folder / f"{name}.svg"
    # Textual's pictures ask for Fira Code from the web; here the system's monospace is what there is.
    path.write_text(_for_rsvg(svg.replace("Fira Code", "DejaVu Sans Mono")), encoding="utf-8")
    if shutil.which("rsvg-convert"):
        subprocess.run(
            ["rsvg-convert", "-w", str(size[0] * 10), "-o", str(path.with_suffix(".png")), str(path)], check=True
        )
        return path.with_suffix(".png")
    return path


def main() -> None:
    """Draw what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenes", nargs="*", default=list(ALL))
    parser.add_argument("--theme", default="eagle-night")
    parser.add_argument("--size", default=None)
    parser.add_argument("--keys", default="")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    sizes = [tuple(int(n) for n in given.size.split("x"))] if given.size else list(SIZES)
    for scene in given.scenes:
        for size in sizes:
            print(asyncio.run(draw(given.folder, scene, (size[0], size[1]), given.theme, given.keys.split())))


if __name__ == "__main__":
    main()

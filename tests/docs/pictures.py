"""Draw the pictures of the documents from the running application: `python -m tests.docs.pictures [NAME...]`.

The tour's come from the keys that `docs/tour.md` names, so that they cannot show anything else; the README's further
ones from `README`. Chromium turns the application's own SVG into PNG (apt-get install chromium fonts-firacode).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.png import shrink
from tests.docs.tour import ROOT, walks
from tests.docs.walk import walked

PICTURES = ROOT / "docs" / "pictures"
WIDTH_PIXELS = 1400
SCALE = 10 / 12.2
"""A cell of the application's SVG is 12.2 by 24.4 units: 10 by 20 pixels."""
_LIVELOCK = "tsviz open traces/mixed-undeclared-livelock"
README = {
    "stops.png": (_LIVELOCK, "f enter w s s s s s s s"),
    "pages.png": (_LIVELOCK, "f enter m"),
    "lost-time.png": (_LIVELOCK, "L"),
    "device.png": ("tsviz open traces/smollm2-live", "g 1 8 enter d 3 z"),
}
"""Pictures beyond those of the tour: command and keys."""
REPORT = ("report.png", "traces/mixed-undeclared-livelock", (1400, 1000))


def chromium(page: Path, picture: Path, size: tuple[int, int], scale: float) -> None:
    """Take a picture of a page in a window of this size. Raises CalledProcessError, or OSError without chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
    subprocess.run(
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000",
         f"--force-device-scale-factor={scale:.6f}", f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}",
         page.as_uri()],
        check=True, capture_output=True, timeout=180,
    )  # fmt: skip
    shrink(picture)


async def draw(command: str, keys: tuple[str, ...], picture: Path, folder: Path) -> None:
    """Walk there and draw the screen."""
    async with walked(command, keys) as pilot:
        svg = pilot.app.export_screenshot(title=command)
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert found is not None
    size = (round(float(found[1])), round(float(found[2])))
    page = folder / "screen.svg"
    page.write_text(svg.replace(found[0], _moved(svg, found), 1), "utf-8")
    chromium(page, picture, size, SCALE)


def _moved(svg: str, found: re.Match[str]) -> str:
    """Return a view box in which the first cell begins at a whole pixel, so that cells meet at whole pixels."""
    corners = re.findall(r"translate\(([\d.]+), ?([\d.]+)\)", svg)
    x, y = (round(float(at) * SCALE) / SCALE - float(at) for at in corners[-1])
    return f'viewBox="{-x:.4f} {-y:.4f} {found[1]} {found[2]}"'


def report(picture: Path, trace: str, size: tuple[int, int], folder: Path) -> None:
    """Draw the top of a report."""
    page = folder / "report.html"
    subprocess.run(
        [sys.executable, "-c", "from tsviz.cli.main import main; main()", "report", trace, "-o", str(page)], check=True
    )
    chromium(page, picture, size, WIDTH_PIXELS / size[0])


def main(chosen: list[str]) -> None:
    """Draw all pictures, or those named."""
    os.chdir(ROOT)
    wanted = {Path(walk.picture).name: (walk.command, walk.keys) for walk in walks()}
    wanted |= {name: (command, tuple(keys.split())) for name, (command, keys) in README.items()}
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        os.environ |= {"TSVIZ_STATE": str(folder / "state"), "TSVIZ_CONFIG": str(folder / "config")}
        for name, (command, keys) in wanted.items():
            if not chosen or name in chosen:
                asyncio.run(draw(command, keys, PICTURES / name, folder))
                print(f"{name:<32} {(PICTURES / name).stat().st_size:>8,} bytes", flush=True)
        name, trace, size = REPORT
        if not chosen or name in chosen:
            report(PICTURES / name, trace, size, folder)
            print(f"{name:<32} {(PICTURES / name).stat().st_size:>8,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A report in a real browser, from disk: it draws, it runs nothing else, and it asks nobody."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tsviz.cli.main import main

from .conftest import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (apt-get install chromium)")


def drawn(trace: Path, folder: Path) -> tuple[str, str]:
    """Write a report, open it, and return the page as the browser has it, with what it complained of."""
    pytest.importorskip("plotly", reason="needs the extra `report`")
    out = folder / "out.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(trace), "-o", str(out)])
    assert ended.value.code == 0
    assert CHROMIUM is not None
    run = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1280,8000",
         "--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}", "--dump-dom", out.as_uri()],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    complaints = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    return run.stdout, "\n".join(complaints)


def test_every_chart_is_drawn_and_the_policy_stops_nothing(tmp_path: Path) -> None:
    """The page of a shipped trace draws all its charts; the browser has nothing to say."""
    page, complaints = drawn(ROOT / "traces" / "head-of-line", tmp_path)
    charts = re.findall(r'<div class="chart[^"]*" id="chart-0-([a-z-]+)"', page)
    assert len(charts) >= 8
    assert page.count('class="main-svg"') >= len(charts)
    assert complaints == ""


def test_hostile_names_run_nothing(hostile: Path, tmp_path: Path) -> None:
    """Ids that are scripts, handlers and links are text in the tables, and the title is the page's own."""
    page, complaints = drawn(hostile, tmp_path)
    assert re.search(r"<title>.*?tsviz report</title>", page)
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "onerror" in shown and "evil.test" in shown
    assert not re.search(r"<(img|iframe|link)\b", shown)
    assert not re.search(r'(href|src)="(?!#)', shown)
    assert complaints == ""

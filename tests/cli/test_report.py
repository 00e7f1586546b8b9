"""`tsviz report` on the command line (what is in the page: tests/report)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Tsviz

TRACE = Path(__file__).resolve().parents[2] / "traces" / "head-of-line"


def test_a_report_is_written_over_a_report_and_over_nothing_else(tsviz: Tsviz, tmp_path: Path) -> None:
    """The file says how large it is; again it takes the place of the last one; any other file stays as it is."""
    pytest.importorskip("plotly", reason="needs the extra `report`")
    out = tmp_path / "out.html"
    for _ in range(2):
        ended = tsviz("report", TRACE, "--recorded-only", "-o", out)
        assert (ended.code, ended.out) == (0, "")
        assert f"{out}: {out.stat().st_size / 1e6:.2f} MB" in ended.err
    out.write_text("mine")
    ended = tsviz("report", TRACE, "--recorded-only", "-o", out)
    assert (ended.code, out.read_text()) == (2, "mine")
    assert "expected a new file or a report" in ended.err
    assert [file.name for file in tmp_path.iterdir()] == ["out.html"]


def test_a_report_goes_to_standard_output(tsviz: Tsviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `-o -` the page is what the command says, and no file of that name is made."""
    pytest.importorskip("plotly", reason="needs the extra `report`")
    monkeypatch.chdir(tmp_path)
    ended = tsviz("report", TRACE, "--recorded-only", "-o", "-")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("<!DOCTYPE html>") and ended.out.rstrip().endswith("</html>")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_reported_says_so(tsviz: Tsviz, tmp_path: Path) -> None:
    """A trace that is not there is unreadable; a report into a bundle or a folder that is not there is wrong usage."""
    pytest.importorskip("plotly", reason="needs the extra `report`")
    assert tsviz("report", tmp_path / "nowhere").code == 3
    assert tsviz("report", TRACE, "-o", TRACE / "out.html").code == 2
    assert tsviz("report", TRACE, "--recorded-only", "-o", tmp_path / "no" / "out.html").code == 2


def test_without_plotly_the_extra_is_named(tsviz: Tsviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where plotly is not installed the command ends with 2 and says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "plotly", None)
    ended = tsviz("report", TRACE, "-o", tmp_path / "out.html")
    assert (ended.code, "tsviz[report]" in ended.err) == (2, True)

"""`docs/house.md` against the packages there are."""

from __future__ import annotations

from tests.docs.tour import ROOT

HOUSE = (ROOT / "docs" / "house.md").read_text("utf-8")


def test_every_room_and_every_package_of_replay_has_its_line() -> None:
    """A package under `tsviz/` or `tsviz/replay/` stands in the first column of a table."""
    firsts = " ".join(line.split("|")[1] for line in HOUSE.splitlines() if line.startswith("| `"))
    packages = [path.parent for where in ("*", "replay/*") for path in (ROOT / "tsviz").glob(f"{where}/__init__.py")]
    assert len(packages) > 20
    assert [package.name for package in packages if f"`{package.name}`" not in firsts] == []

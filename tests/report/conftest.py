"""Reports of shipped traces, without plotly's code: what the page says does not depend on it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tsviz.cli.main import main
from tsviz.cli.report import subject_of
from tsviz.cli.traces import open_place, parse_place
from tsviz.report.library import Library
from tsviz.report.page import page

os.environ["SPDLOG_LEVEL"] = "off"
ROOT = Path(__file__).resolve().parents[2]
NO_CODE = Library("0", "", "sha256-none")


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Indexes that these tests build are kept for the session."""
    os.environ["TSVIZ_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@cache
def _written(path: str, recorded_only: bool) -> str:
    place = parse_place(path)
    bundle, _ = open_place(place)
    return page(subject_of(place, bundle, bundle.parts, recorded_only), NO_CODE)


@pytest.fixture(scope="session")
def report() -> Callable[..., str]:
    """Return the page of a trace that ships with the project, by name."""

    def of(name: str, recorded_only: bool = False) -> str:
        return _written(str(ROOT / "traces" / name), recorded_only)

    return of


HOSTILE = (
    "</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">",
    "a'); document.title='owned'; ('", "%{x}<b>bold</b><a href='http://evil.test'>link</a>", "@decode",
    "\u202eturned\u2066", "\x1b[31mred\x07", "$(touch owned)`touch owned`", "]]>--><!--", '"quoted" & &amp;',
)  # fmt: skip
"""Request ids that a page, a chart or a shell could take for more than text."""


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the twin whose requests have those ids, and whose folder is called like markup."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {"id": name, "arrival_ms": 5 * n, "prompt_tokens": 40 + n, "output_tokens": 12}
        for n, name in enumerate(HOSTILE)
    ]
    workload = folder / "ids.jsonl"
    workload.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    out = folder / "<i>it's"
    arguments = ["record", "--workload", f"plain:{workload}", "--scheduler", "twin", "--pages", "13",
                 "--max-new", "undeclared", "--out", str(out)]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return out


@pytest.fixture(scope="session")
def hostile_page(hostile: Path) -> str:
    """The report of that recording."""
    return _written(str(hostile), False)

"""The command line in this process: what it prints, and the code it ends with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tsviz.cli.main import main

os.environ["SPDLOG_LEVEL"] = "off"

SMALL = ("--pages", "65", "--host-pages", "65", "--max-new", "undeclared")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


Tsviz = Callable[..., Ended]


@pytest.fixture
def tsviz(capfd: pytest.CaptureFixture[str]) -> Tsviz:
    """Run a command and return how it ended."""

    def run(*arguments: str | Path) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return Ended(int(caught.value.code or 0), out, err)

    return run


@pytest.fixture(scope="session")
def small_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording of the real scheduler, with retractions and a host tier: made once, to be copied."""
    pytest.importorskip("tokenspeed_scheduler")
    out = tmp_path_factory.mktemp("recorded") / "small"
    workload = "poisson:requests=20,rate=60,prompt_tokens=120,output_tokens=60"
    with pytest.raises(SystemExit) as ended:
        main(["record", "--workload", workload, *SMALL, "--out", str(out)])
    assert ended.value.code in (0, None)
    return out


@pytest.fixture
def recorded(small_recording: Path, tmp_path: Path) -> Path:
    """That recording, for one test to do with it what it likes."""
    return Path(shutil.copytree(small_recording, tmp_path / "small"))

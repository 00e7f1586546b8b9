"""Versions of the real package: which there are, installing one beside the others, a run on it in a process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .runner import runner_text
from .search import CannotRun, Outcome, Ran

DISTRIBUTION = "tokenspeed-scheduler"
_INDEX_SECONDS, _INSTALL_SECONDS, _RUN_SECONDS = 60, 180, 300
_REASON_CHARACTERS = 300
_OFFLINE = ("connection", "name resolution", "network", "timed out", "proxy", "ssl", "retries")


class NoIndex(Exception):
    """The package index does not answer; the message says what pip said."""


def _pip(arguments: Sequence[str], seconds: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise NoIndex(f"pip {arguments[0]} gave no answer within {seconds} s: is there a network?") from None
    except OSError as error:
        raise NoIndex(f"pip cannot be started: {error}") from None


def available_versions() -> list[str]:
    """Ask the index for the versions there are. Raises NoIndex."""
    done = _pip(["index", "versions", DISTRIBUTION], _INDEX_SECONDS)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        raise NoIndex(f"no versions of {DISTRIBUTION} from the package index: {_last_line(done.stderr)}")
    return [version.strip() for version in found[1].split(",")]


class Versions:
    """Runs one job on any version; each is installed once, in a directory of its own below `directory`."""

    def __init__(self, directory: Path, job: dict[str, Any]) -> None:
        """Write the runner and its job into `directory`."""
        self._directory = directory
        self._runner, self._job = directory / "runner.py", directory / "job.json"
        self._runner.write_text(runner_text(), encoding="utf-8")
        self._job.write_text(json.dumps(job), encoding="utf-8")

    def run(self, version: str) -> Outcome:
        """Install a version and run the job on it. Raises NoIndex when the index does not answer."""
        target = self._directory / f"version-{version}"
        if not target.exists():
            arguments = ["install", "--no-deps", "--quiet", "--target", str(target), f"{DISTRIBUTION}=={version}"]
            done = _pip(arguments, _INSTALL_SECONDS)
            if done.returncode:
                said = _last_line(done.stderr)
                if any(word in done.stderr.lower() for word in _OFFLINE):
                    raise NoIndex(f"{DISTRIBUTION} {version} cannot be fetched: {said}")
                return CannotRun(version, f"cannot be installed: {said}")
        result = self._directory / f"result-{version}.json"
        command = [sys.executable, str(self._runner), str(target), str(self._job), str(result)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return CannotRun(version, f"not done within {_RUN_SECONDS} s")
        return read_result(version, result, ended.returncode, ended.stderr)


def read_result(version: str, path: Path, code: int, said: str) -> Outcome:
    """Read what a process left behind."""
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return CannotRun(version, f"died of {name}: {_last_line(said)}")
    if code or not path.exists():
        return CannotRun(version, f"ended with {code}: {_last_line(said)}")
    result = json.loads(path.read_text(encoding="utf-8"))
    if result["error"]:
        return CannotRun(version, result["error"][:_REASON_CHARACTERS])
    return Ran(
        version, tuple(result["digests"]), tuple(result["lines"]), tuple(result["shows"]), result["problem"],
        tuple(result["unknown"]),
    )  # fmt: skip


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "nothing was said")[:_REASON_CHARACTERS]

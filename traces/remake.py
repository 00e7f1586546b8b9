"""Record the shipped incidents anew: `python traces/remake.py [NAME...]`; needs tsviz and the real scheduler."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Make the incidents of these names (all without any); returns how many could not be made."""
    catalogue = json.loads((HERE / "incidents.json").read_text())
    missing = 0
    for name in names or catalogue:
        entry = catalogue[name]
        if "needs" in entry and not (HERE / entry["needs"]).exists():
            print(f"{name}: left as it is, {entry['needs']} is not here")
            missing += 1
            continue
        shutil.rmtree(HERE / name, ignore_errors=True)
        command = [sys.executable, "-m", *shlex.split(entry["command"]), "--out", name]
        subprocess.run(command, cwd=HERE, check=True)
    return missing


if __name__ == "__main__":
    main(sys.argv[1:])

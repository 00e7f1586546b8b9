"""The walls between the rooms, each tried in a process of its own (architecture.md, section 3)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"scheduler", "trace", "query", "engine", "adapters", "replay", "report", "tui", "cli"}
REAL = "tokenspeed_scheduler"
DRAWING = {"textual", "rich", "click"}

# Room -> (rooms it may import, outside packages that importing it must not load).
WALLS: dict[str, tuple[set[str], set[str]]] = {
    "scheduler": (set(), {"pyarrow", "duckdb", "torch", "plotly", REAL, *DRAWING}),
    "trace": ({"scheduler"}, {"duckdb", "torch", "plotly", REAL, *DRAWING}),
    "query": ({"trace", "scheduler"}, {"torch", "plotly", REAL, *DRAWING}),
    "engine": ({"scheduler", "trace"}, {"duckdb", "torch", "plotly", REAL, *DRAWING}),
    "adapters": ({"trace", "scheduler"}, {"duckdb", "torch", "plotly", REAL, *DRAWING}),
    "replay": ({"engine", "query", "trace", "scheduler"}, {"torch", "plotly", REAL, *DRAWING}),
    "report": ({"replay", "query", "engine", "trace", "scheduler"}, {"torch", "plotly", REAL, *DRAWING}),
    "tui": ({"replay", "query", "engine", "trace", "scheduler"}, {"torch", "plotly", REAL}),
    "cli": (ROOMS, {"torch", "plotly", REAL}),
}

_IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, {root!r})
blocked = {blocked!r}

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)

sys.meta_path.insert(0, Block())
package = importlib.import_module({package!r})
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not found.name.endswith("__main__") and not found.name.startswith({skipped!r}):
        importlib.import_module(found.name)
print(*sorted(sys.modules))
"""


def modules_after(code: str) -> set[str]:
    """Run `code` in a fresh interpreter and return the names that it printed."""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def everything_of(package: str, blocked: set[str], skipped: str = "nothing") -> set[str]:
    """Import every module of `package` with `blocked` packages missing, a room left out; return all then loaded."""
    return modules_after(_IMPORT_ALL.format(root=str(ROOT), package=package, blocked=sorted(blocked), skipped=skipped))


@pytest.mark.parametrize("room", sorted(WALLS))
def test_a_room_pulls_in_no_room_and_no_package_beyond_its_wall(room: str) -> None:
    """Every module of a room imports with the packages beyond its wall missing, and loads no forbidden room."""
    allowed, forbidden = WALLS[room]
    loaded = everything_of(f"tsviz.{room}", forbidden)
    rooms = {name.split(".")[1] for name in loaded if name.startswith("tsviz.") and name.count(".")} & ROOMS
    assert rooms - allowed - {room} == set()
    assert {name.partition(".")[0] for name in loaded} & forbidden == set()


def test_every_room_has_a_wall() -> None:
    """A room that is added to the package must be given a wall here."""
    rooms = {p.name for p in (ROOT / "tsviz").iterdir() if (p / "__init__.py").exists()}
    assert rooms <= set(WALLS) | {"executor"}


def test_the_base_install_needs_neither_torch_nor_the_real_scheduler() -> None:
    """All but the executor imports where torch, plotly and tokenspeed_scheduler are not installed."""
    everything_of("tsviz", {"torch", "plotly", REAL}, skipped="tsviz.executor.")


def test_the_executor_knows_engine_trace_and_scheduler_only() -> None:
    """Every module of the executor imports without the packages of other rooms, and loads none of those rooms."""
    pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")
    loaded = everything_of("tsviz.executor", {"duckdb", "plotly", REAL, *DRAWING})
    rooms = {name.split(".")[1] for name in loaded if name.startswith("tsviz.") and name.count(".")} & ROOMS
    assert rooms == {"engine", "trace", "scheduler"}


def test_help_loads_no_heavy_package() -> None:
    """`tsviz --help` loads neither numpy, pyarrow, duckdb, textual nor rich: a cold start is a matter of modules."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['tsviz', '--help']\n"
        "import io, contextlib\n"
        "from tsviz.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main()\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    heavy = {"numpy", "pyarrow", "duckdb", "textual", "rich", "torch", "plotly", REAL}
    assert modules_after(code) & heavy == set()

"""Where commands write: never into a bundle that is there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click
import pytest

from tsviz.cli.main import COMMANDS, cli
from tsviz.cli.params import OutputPath

from .conftest import Tsviz

GOLDEN = Path(__file__).parents[1] / "trace" / "golden" / "1.0" / "fused-cold"


def output_options() -> list[tuple[str, click.Option]]:
    """Return every option of a command that takes a path which need not exist."""
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in COMMANDS}
    return [
        (name, option)
        for name, command in commands.items()
        if command is not None
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.type, click.Path) and not option.type.exists
    ]


def test_every_command_that_writes_has_the_one_check() -> None:
    """No option takes a path to write to by another type than the one that refuses bundles."""
    found = output_options()
    assert {name for name, _ in found} >= {"record", "export", "slice", "minimize", "repro", "whatif"}
    assert [(name, option.name) for name, option in found if not isinstance(option.type, OutputPath)] == []


@pytest.mark.parametrize("inside", ["", "new", "parts/new", "parts/N.0/cold/new"])
def test_nothing_is_written_into_a_bundle(tsviz: Tsviz, tmp_path: Path, inside: str) -> None:
    """A path that is a bundle, or lies in one however deep, is refused as usage, and the bundle stays as it was."""
    bundle = Path(shutil.copytree(GOLDEN, tmp_path / "bundle"))
    before = sorted(bundle.rglob("*"))
    out = bundle / inside
    for command in (
        ("slice", bundle, "2:4", "--out", out),
        ("export", bundle, "--parquet", out),
        ("record", "--workload", "poisson:requests=2", "--scheduler", "twin", "--out", out),
        ("repro", bundle, "--out", out),
        ("minimize", bundle, "--while", "livelock", "--out", out),
        ("whatif", bundle, "--set", "max_scheduled_tokens=64", "--out", out),
    ):
        ended = tsviz(*command)
        assert ended.code == 2, (command, ended)
        assert f"expected a path outside every bundle, found the bundle {bundle}" in ended.err, ended.err
        assert sorted(bundle.rglob("*")) == before


def test_a_name_that_is_no_utf8_is_refused_before_anything_is_written(tsviz: Tsviz, tmp_path: Path) -> None:
    """Arrow opens no path outside UTF-8: writing there is a usage error, and reading there says so, with one line."""
    odd = tmp_path / os.fsdecode(b"na\xff\xfe")
    shutil.copytree(GOLDEN, odd)
    for code, *words in (
        (2, "slice", GOLDEN, "2:4", "--out", odd / "out"),
        (2, "redact", GOLDEN, odd / "out"),
        (2, "record", "--workload", "poisson:requests=2", "--scheduler", "twin", "--out", odd / "out"),
        (2, "export", GOLDEN, "--otel", odd / "out"),
        (3, "info", odd),
        (3, "sql", odd, "FROM rounds"),
    ):
        ended = tsviz(*words)
        assert ended.code == code, (words, ended)
        assert "expected names in UTF-8, which Arrow needs, found bytes that are none" in ended.err, ended.err
        assert "na\\xff\\xfe" in ended.err and "Traceback" not in ended.err
    assert not (odd / "out").exists()


def test_a_link_into_a_bundle_is_followed(tsviz: Tsviz, tmp_path: Path) -> None:
    """A link that leads into a bundle is where it leads."""
    bundle = Path(shutil.copytree(GOLDEN, tmp_path / "bundle"))
    (tmp_path / "way").symlink_to(bundle / "parts")
    ended = tsviz("slice", bundle, "2:4", "--out", tmp_path / "way" / "new")
    assert (ended.code, "outside every bundle" in ended.err) == (2, True), ended

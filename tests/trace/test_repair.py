"""`repair`, `merge`, `pack` and `unpack`: what is left of a trace, several as one, and one file of it."""

from __future__ import annotations

import random
import shutil
import stat
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace.lives import record
from tsviz.replay.overview import overview
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.slice import write_slice
from tsviz.replay.view import open_view
from tsviz.scheduler import compat
from tsviz.trace import layout, segments
from tsviz.trace.errors import CannotRecord, Damaged
from tsviz.trace.merging import RESTARTS, merge_bundles
from tsviz.trace.packing import pack, unpack
from tsviz.trace.reader import open_bundle
from tsviz.trace.repair import repair
from tsviz.trace.tables import RECORDED

TRACES = Path(__file__).resolve().parents[2] / "traces"


@pytest.fixture(scope="module")
def whole(real: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hot recording of one lifetime with a commit every few rounds."""
    path = tmp_path_factory.mktemp("repair") / "whole"
    commits = pytest.MonkeyPatch()
    commits.setattr("tsviz.trace.writer.FLUSH_SECONDS", 0.0)
    commits.setattr("tsviz.trace.writer._TAKE_ENTRIES", 8)
    record(real, path, 103, role="Fused", tokens="full", steps=120, compacted=False)
    commits.undo()
    assert len(commits_of(path)) > 6
    return path


def hot(path: Path) -> Path:
    """Return the folder of the hot tables of the only part."""
    return path / "parts" / "N.0" / "hot"


def commits_of(path: Path) -> list[dict[str, Any]]:
    """Return the records of the commits."""
    lines = (hot(path) / "commits.jsonl").read_bytes().splitlines()
    return [record for line in lines if (record := segments.parse_commit(line)) is not None]


@pytest.fixture
def broken(whole: Path, tmp_path: Path) -> Path:
    """A copy of the recording that was not closed."""
    path = tmp_path / "broken"
    shutil.copytree(whole, path)
    (path / "end.json").unlink()
    return path


def assert_back_to(path: Path, out: Path, number: int) -> None:
    """The repaired bundle holds what was committed first, up to a commit, and verifies."""
    part, record = open_bundle(out).parts[0], commits_of(path)[number]
    assert part.last_round == record["last_round"]
    assert part.rows("calls") == record["tables"]["calls"][2] == record["last_seq"] + 1
    assert verify(part, compat).complete


@pytest.mark.parametrize("cut", ["commits.jsonl", "calls.arrows"])
def test_a_cut_in_front_of_the_first_commit_leaves_an_empty_trace(broken: Path, tmp_path: Path, cut: str) -> None:
    """Ten bytes of a table, or of its commits: it opens, and what was lost is named with file, expected and found."""
    file = hot(broken) / cut
    file.write_bytes(file.read_bytes()[:10])
    (found,) = repair(broken, tmp_path / "sound")
    words = "; ".join(found.lost)
    assert found.last_round == 0 and "every round: " in words
    assert "commits.jsonl: expected a commit whose tables have their CRC, found " in words
    opened = open_bundle(tmp_path / "sound")
    assert overview(opened)["parts"][0]["rounds"] == 0
    assert "every round" in (opened.end or {})["error"]
    assert open_view(opened).snapshot(1).requests == ()
    assert verify(opened.parts[0], compat).complete


def test_a_bundle_without_its_end_is_whole_up_to_its_last_commit(broken: Path, tmp_path: Path) -> None:
    """A killed recording of whose commits and tables nothing is missing loses nothing, and its end says why."""
    (repaired,) = repair(broken, tmp_path / "out")
    assert repaired.lost == ("the recording was not closed: its process was killed, or failed",)
    assert_back_to(broken, tmp_path / "out", -1)
    end = open_bundle(tmp_path / "out").end
    assert end is not None and end["error"].startswith("repaired: the recording was not closed")
    assert (broken / "parts" / "N.0" / "hot").exists()


@pytest.mark.parametrize("seed", range(8))
def test_a_byte_that_changed_or_a_file_that_was_cut_costs_what_was_committed_behind_it(
    broken: Path, tmp_path: Path, seed: int
) -> None:
    """Back to the last commit whose bytes end before the damage, in all tables alike."""
    rng = random.Random(seed)
    records = commits_of(broken)
    tables = {name for name in records[2]["tables"] if records[2]["tables"][name] != records[-1]["tables"][name]}
    name = rng.choice(sorted(tables))
    file = hot(broken) / f"{name}.arrows"
    at = rng.randrange(records[2]["tables"][name][0], records[-1]["tables"][name][0])
    data = bytearray(file.read_bytes())
    if seed % 2:
        del data[at:]
    else:
        data[at] ^= 0x40
    file.write_bytes(data)
    expected = max(i for i, r in enumerate(records) if r["tables"].get(name, [0])[0] <= at)
    (repaired,) = repair(broken, tmp_path / "out")
    assert_back_to(broken, tmp_path / "out", expected)
    assert any(words.startswith(f"{name}.arrows: ") for words in repaired.lost)
    calls = records[-1]["last_seq"] - records[expected]["last_seq"]
    assert any(words.endswith(f", {calls:,} calls") for words in repaired.lost)


def test_a_damaged_commit_ends_the_trace_in_front_of_it(broken: Path, tmp_path: Path) -> None:
    """What the fourth line would say is not known, so three commits are kept."""
    file = hot(broken) / "commits.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    kept = commits_of(broken)[:3]
    lines[3] = lines[3][:-4] + b"000\n"
    file.write_bytes(b"".join(lines))
    (repaired,) = repair(broken, tmp_path / "out")
    part = open_bundle(tmp_path / "out").parts[0]
    assert (part.last_round, part.rows("calls")) == (kept[-1]["last_round"], kept[-1]["last_seq"] + 1)
    assert f"{sum(map(len, lines[3:])):,} bytes of commits.jsonl behind commit 2" in repaired.lost


def test_a_lost_description_is_made_of_the_parts(broken: Path, tmp_path: Path) -> None:
    """Without bundle.json the rounds are all there; who recorded them is not."""
    (broken / "bundle.json").write_text("{")
    (repaired,) = repair(broken, tmp_path / "out")
    assert "bundle.json" in repaired.lost[0]
    assert_back_to(broken, tmp_path / "out", -1)


def test_a_part_without_its_description_cannot_be_read(broken: Path, tmp_path: Path) -> None:
    """The config is in part.json: without it nothing is written, and the file is named."""
    (broken / "parts" / "N.0" / "part.json").unlink()
    with pytest.raises(Damaged, match=r"part\.json"):
        repair(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_closed_bundle_with_a_damaged_spare_table_loses_that_table(tmp_path: Path) -> None:
    """Of a compacted trace the forwards may go; the calls may not."""
    path = tmp_path / "trace"
    shutil.copytree(TRACES / "bounded-replay", path)
    cold = path / "parts" / "F.0" / "cold"
    (cold / "forwards.parquet").write_bytes(b"x" * (cold / "forwards.parquet").stat().st_size)
    (repaired,) = repair(path, tmp_path / "out")
    assert [words.partition(" (")[0] for words in repaired.lost] == ["table forwards"]
    assert verify(open_bundle(tmp_path / "out").parts[0], compat).complete
    (cold / "calls.parquet").write_bytes(b"x" * (cold / "calls.parquet").stat().st_size)
    with pytest.raises(Damaged, match="calls"):
        repair(path, tmp_path / "again")


def test_ranks_of_one_name_get_numbers_and_restarts_get_names(tmp_path: Path) -> None:
    """F/0 three times: F/0, F/1, F/2 as ranks; F, F-2, F-3 as runs; each verifies as before."""
    bundles = [open_bundle(TRACES / name) for name in ("bounded-replay", "head-of-line", "mixed-stall")]
    placed = merge_bundles(bundles, tmp_path / "ranks")
    assert [place.part for place in placed] == ["F/0", "F/1", "F/2"]
    merge_bundles(bundles, tmp_path / "runs", same=RESTARTS)
    merged = open_bundle(tmp_path / "runs")
    assert [(part.node, part.rank) for part in merged.parts] == [("F", 0), ("F-2", 0), ("F-3", 0)]
    for part, bundle in zip(merged.parts, bundles, strict=True):
        assert verify(part, compat).complete
        for name in RECORDED:
            assert part.table(name).to_pylist() == bundle.parts[0].table(name).to_pylist()
    assert merged.end is not None and merged.end["parts"]["F-3/0"] == bundles[2].end["parts"]["F/0"]  # type: ignore[index]


def test_times_of_another_process_are_put_on_the_first_ones_clock(whole: Path, tmp_path: Path) -> None:
    """Clock of the second 5 s behind that of the first at the same wall time: its times rise by 5 s."""
    for name, monotonic in (("one", 9_000_000_000), ("two", 4_000_000_000)):
        shutil.copytree(whole, tmp_path / name)
        part = layout.read_json(tmp_path / name / "parts" / "N.0" / "part.json")
        layout.write_json(tmp_path / name / "parts" / "N.0" / "part.json", {**part, "clock": "monotonic"})
        description = layout.read_json(tmp_path / name / "bundle.json")
        description["clock_anchor"] = {"wall_ns": 100_000_000_000, "monotonic_ns": monotonic}
        layout.write_json(tmp_path / name / "bundle.json", description)
    merge_bundles([open_bundle(tmp_path / "one"), open_bundle(tmp_path / "two")], tmp_path / "out")
    one, two = open_bundle(tmp_path / "out").parts
    for table, column in (("calls", "time_ns"), ("rounds", "start_ns")):
        before, after = one.table(table)[column].to_pylist(), two.table(table)[column].to_pylist()
        assert after == [time + 5_000_000_000 for time in before]


def test_what_does_not_go_together_is_not_merged(tmp_path: Path) -> None:
    """Full and identity tokens are two kinds of trace."""
    bundles = [open_bundle(TRACES / name) for name in ("bounded-replay", "escalating-headroom")]
    with pytest.raises(CannotRecord, match="expected one token mode in all traces, found full and identity"):
        merge_bundles(bundles, tmp_path / "out")


def test_a_trace_is_not_merged_with_itself(tmp_path: Path) -> None:
    """By whatever path it is given; nothing is written."""
    (tmp_path / "link").symlink_to(TRACES / "bounded-replay")
    bundles = [open_bundle(path) for path in (TRACES / "bounded-replay", tmp_path / "link")]
    with pytest.raises(CannotRecord, match=r"expected every trace once, found .*bounded-replay twice"):
        merge_bundles(bundles, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_dumps_of_one_process_with_the_same_rounds_are_not_merged(tmp_path: Path) -> None:
    """Two slices of one recording that share rounds 5 and 6 are refused by them; two that share none are merged."""
    bundle = open_bundle(TRACES / "bounded-replay")
    for name, first, last in (("one", 1, 6), ("two", 5, 9), ("three", 7, 9)):
        write_slice(bundle, bundle.parts[0], first, last, tmp_path / name)
    one, two, three = (open_bundle(tmp_path / name) for name in ("one", "two", "three"))
    with pytest.raises(CannotRecord, match=r"found rounds 5 to 6 of F/0 in both .*one and .*two: they are of one"):
        merge_bundles([one, two], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert len(merge_bundles([one, three], tmp_path / "out", same=RESTARTS)) == 2


def test_a_packed_trace_comes_back_byte_for_byte(tmp_path: Path) -> None:
    """pack and unpack give the same files; packing twice gives the same archive."""
    source = TRACES / "prefill-decode-pair"
    for name in ("a", "b"):
        pack(source, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    unpack(tmp_path / "a", tmp_path / "out")
    files = sorted(file.relative_to(source) for file in source.rglob("*") if file.is_file())
    assert files == sorted(
        file.relative_to(tmp_path / "out") for file in (tmp_path / "out").rglob("*") if file.is_file()
    )
    assert all((source / file).read_bytes() == (tmp_path / "out" / file).read_bytes() for file in files)


NAME, SPARE = "parts/F.0/cold/calls.parquet", "parts/F.0/cold/keyframes.parquet"
TRICKS: dict[str, Any] = {
    "../escaped": None, "/tmp/escaped": None, "parts/../../escaped": None, "parts/F.0/cold/../x": None,
    "parts/F.0/cold/other.parquet": None, "parts\\F.0\\part.json": None, "parts/F.0/": None,
    "link": (stat.S_IFLNK | 0o777) << 16, "deflated": zipfile.ZIP_DEFLATED, "twice": None,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("trick", TRICKS)
def test_an_archive_with_a_trick_is_refused_and_writes_nothing(tmp_path: Path, trick: str) -> None:
    """Paths that lead out, links, compressed entries, names twice and names of other files: none is unpacked."""
    pack(TRACES / "bounded-replay", tmp_path / "packed")
    with zipfile.ZipFile(tmp_path / "packed", "a") as archive:
        entry = zipfile.ZipInfo(NAME if trick in ("link", "deflated", "twice") else trick)
        if trick == "link":
            entry.filename, entry.external_attr = SPARE, TRICKS[trick]
        if trick == "deflated":
            entry.filename, entry.compress_type = SPARE, TRICKS[trick]
        archive.writestr(entry, b"/etc/passwd" * 9)
    folder = tmp_path / "inner"
    folder.mkdir()
    with pytest.raises(Damaged, match="entry"):
        unpack(tmp_path / "packed", folder / "out")
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "escaped").exists()


def test_an_archive_that_claims_more_than_it_has_is_refused(tmp_path: Path) -> None:
    """A limit of 1,000 bytes, bytes that are no archive, a cut one, one that is no bundle: each is said."""
    pack(TRACES / "bounded-replay", tmp_path / "packed")
    with pytest.raises(Damaged, match="expected at most 1,000 bytes"):
        unpack(tmp_path / "packed", tmp_path / "out", limit_bytes=1000)
    data = (tmp_path / "packed").read_bytes()
    for name, content in (("noise", b"PK" * 500), ("cut", data[: len(data) // 2])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Damaged, match="archive: expected a packed bundle"):
            unpack(tmp_path / name, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "empty", "w") as archive:
        archive.writestr("end.json", b"{}")
    with pytest.raises(Damaged, match=r"empty: bundle: bundle.json: expected the bundle's description"):
        unpack(tmp_path / "empty", tmp_path / "out")
    changed = bytearray(data)
    changed[data.index(b"PAR1") + 40] ^= 1
    (tmp_path / "changed").write_bytes(changed)
    with pytest.raises(Damaged, match="CRC"):
        unpack(tmp_path / "changed", tmp_path / "out")
    assert not (tmp_path / "out").exists()

"""Relations are made when a query names them; no way of naming one is left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.query.fakes import FakeBundle, FakePart
from tests.query.tiny import tiny
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.query.problem import QueryError
from tsviz.query.views import SHIPPED
from tsviz.trace.catalogue import TABLES


@pytest.fixture
def fresh() -> Iterator[Locked]:
    """A connection that was asked nothing yet."""
    connection = Locked(Catalog([FakeBundle("tiny", [FakePart(tiny())])]))
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "named",
    ["FROM Requests", 'FROM "requests"', "FROM query_table('requests')", "FROM query_table('req' || 'uests')",
     "FROM query('FROM ' || 'req' || 'uests')", "WITH r AS (TABLE requests) FROM r"],
)  # fmt: skip
def test_a_view_is_there_however_it_is_named(fresh: Locked, named: str) -> None:
    """The first query of a connection counts the four requests of the trace, a to d."""
    assert fresh.query(f"SELECT count(*) AS n FROM ({named})")[0].to_pylist() == [{"n": 4}]


def test_a_macro_brings_what_it_reads(fresh: Locked) -> None:
    """A table macro is asked first on a connection, with its argument."""
    macro = next(relation for relation in SHIPPED if relation.parameters)
    assert fresh.query(macro.example)[1].exact


@pytest.mark.parametrize("listing", ["SELECT view_name FROM duckdb_views()", "SHOW TABLES",
                                     "SELECT table_name FROM information_schema.tables"])  # fmt: skip
def test_a_list_of_relations_has_all_of_them(fresh: Locked, listing: str) -> None:
    """What asks the engine which relations there are gets every recorded table and every view."""
    names = {row for column in fresh.query(listing)[0].columns for row in column.to_pylist()}
    assert names >= {*TABLES, *(relation.name for relation in SHIPPED if relation.parameters is None)}


def test_a_wrong_name_is_shown_at_its_place(fresh: Locked) -> None:
    """The error has where the name stands, and the connection goes on."""
    with pytest.raises(QueryError, match="retractionz does not exist") as caught:
        fresh.query("FROM retractionz")
    assert caught.value.problem.at == (5, 11)
    assert fresh.query("SELECT count(*) AS n FROM requests")[0].to_pylist() == [{"n": 4}]

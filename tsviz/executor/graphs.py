"""CUDA graphs of decode steps: captured once a shape, then replayed (`executor-rules.md` section 9, E3).

A captured step reads and writes tensors that stay where they are, and calls nothing that allocates outside of the
graph's own pool, copies to the host or waits. The first step of a shape runs as it is, so that libraries make what
they need; the second is captured; from then on the graph is replayed. The library is given, so that CI checks the calls
and what a replay does without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class DecodeGraphs:
    """Graphs by key, in one pool of memory: they are replayed on one stream, one after the other."""

    def __init__(self, library: Any) -> None:
        """`library` is `torch.cuda`, or what looks like it."""
        self._library = library
        self._pool = library.graph_pool_handle()
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, Any] = {}

    @property
    def captured(self) -> int:
        """How many graphs there are."""
        return len(self._graphs)

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do the work of a key, the same at every call, on the current stream: by itself, or by its graph."""
        if (graph := self._graphs.get(key)) is None:
            if key not in self._seen:
                self._seen.add(key)
                work()
                return
            graph = self._graphs[key] = self._capture(work)
        graph.replay()

    def _capture(self, work: Callable[[], None]) -> Any:
        """Capture what is launched from this thread: others go on allocating pinned memory meanwhile."""
        graph = self._library.CUDAGraph()
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
        return graph


def rows_of(rows: int) -> int:
    """Return for how many rows a graph is captured that runs so many: the next power of two."""
    return 1 << max(0, rows - 1).bit_length()


def columns_of(columns: int) -> int:
    """Return for how many table columns: all pages in them are copied, so that steps are an eighth of that, or 4."""
    step = max(4, rows_of(columns) // 8)
    return -(-columns // step) * step

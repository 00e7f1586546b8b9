"""A node alone on the real scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.summary import EndReason
from tsviz.engine.workloads.model import Span, Workload, WorkRequest

real = pytest.importorskip("tokenspeed_scheduler")
pytestmark = pytest.mark.oracle

SAMPLE = Path("/work/shared/workloads/mooncake-conversation/conversation_trace.rows1-3658.jsonl")

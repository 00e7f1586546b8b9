"""What every test has: a silent oracle, and a cache of its own instead of the user's."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("SPDLOG_LEVEL", "off")
os.environ["TSVIZ_CACHE"] = tempfile.mkdtemp(prefix="tsviz-tests-")

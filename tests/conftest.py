"""What every test has: a silent oracle, and a cache of its own instead of the user's."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("SPDLOG_LEVEL", "off")
_CACHE = tempfile.mkdtemp(prefix="tsviz-tests-")
os.environ["TSVIZ_CACHE"] = _CACHE
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)

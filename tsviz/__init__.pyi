from .api import Trace as Trace
from .api import follow_trace as follow
from .api import open_trace as open  # noqa: A004 (the name that Python users type: tsviz.open)

__version__: str
__all__ = ["Trace", "__version__", "follow", "open"]

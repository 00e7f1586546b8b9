"""S2: the decode round where the real package has least to do: pages of 64 tokens; one row."""

from __future__ import annotations

from .s1_decode import s2_figures as figures

__all__ = ["figures"]

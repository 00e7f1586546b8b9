"""The page: header, headlines, findings, charts and tables of every part, in one file that needs nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from .library import Library, digest
from .section import anchor, part_section
from .subject import Subject
from .text import clean, embedded, escape


def page(subject: Subject, library: Library) -> str:
    """Return the HTML of the report. Raises QueryError where the trace cannot be asked."""
    script = _asset("page.js")
    data: list[dict[str, Any]] = []
    sections = [part_section(subject, part, data) for part in subject.parts]
    name = escape(clean(subject.about["name"]))
    policy = (
        f"default-src 'none'; script-src '{digest(script)}' '{library.digest}'; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return "".join((
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="referrer" content="no-referrer">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n',
        f"<title>{name} · tsviz report</title>\n<style>{_asset('page.css')}</style>\n</head>\n<body>\n",
        _header(subject), "<main>", *sections, _about(subject, library), "</main>\n",
        '<div id="place" role="status" aria-live="polite" hidden></div><div id="tip" hidden></div>\n',
        f'<script type="application/json" id="report-data">{embedded(data)}</script>\n',
        f'<script type="text/plain" id="plotly-packed">{library.packed}</script>\n',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ))  # fmt: skip


def _asset(name: str) -> str:
    return files("tsviz.report").joinpath("assets", name).read_text(encoding="utf-8")


def _header(subject: Subject) -> str:
    about = subject.about
    links = ""
    if len(subject.parts) > 1:
        links = '<nav aria-label="Schedulers">' + "".join(
            f'<a href="#{anchor(part)}">{escape(part.name)}</a>' for part in subject.parts
        ) + "</nav>"  # fmt: skip
    engines = ", ".join(dict.fromkeys(clean(part["engine"]) for part in about["parts"]))
    warnings = "".join(f'<p class="warning">▲ {escape(text)}</p>' for text in about["warnings"])
    return (
        f'<header><div><p class="kind">tsviz report</p><h1>{escape(clean(about["name"]))}</h1>'
        f'<p class="facts">{escape(engines)}, {escape(_workload(about))}</p></div>{links}'
        '<div class="switches"><label>time axis <select id="axis"><option value="rounds">rounds</option>'
        '<option value="seconds">seconds</option></select></label>'
        '<label>theme <select id="theme"><option value="">system</option><option value="light">light</option>'
        f'<option value="dark">dark</option></select></label></div></header>{warnings}'
    )


def _workload(about: dict[str, Any]) -> str:
    workload = about["workload"]
    return clean(workload.get("file") or workload.get("kind") or "unknown workload")


def _about(subject: Subject, library: Library) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in (
            ("trace", subject.trace), ("recorded by", subject.about["command"]),
            ("schema", subject.about["schema"]), ("tokens", subject.about["tokens"]),
            ("drawn by", f"tsviz {subject.version}, plotly {library.version}"),
        )
    )  # fmt: skip
    return f'<section class="about"><h2>About this file</h2><dl>{rows}</dl></section>'

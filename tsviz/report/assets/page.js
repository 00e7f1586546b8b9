"use strict";
// Draws the charts of the page from #report-data. Colours come from the style sheet by role ("@decode"), so that a
// change of theme is a change of style and a redraw. Text of the trace reaches the page as textContent only.
(() => {
  const PARTS = JSON.parse(document.getElementById("report-data").textContent);
  // What it is called, its colour, its share of a lane, its most pixels, its dash: told apart without colour too.
  const PHASES = [
    ["waits for its first row", "queued", 0.3, 3, "solid"], ["prefill", "prefill", 0.85, 14, "solid"],
    ["decode", "decode", 0.6, 9, "solid"], ["retracted, waits to come back", "retracted", 0.3, 3, "dot"],
  ];
  const COLOURED = new Set(["color", "fillcolor", "fgcolor", "bgcolor", "gridcolor", "linecolor", "bordercolor"]);
  const CONFIG = { displaylogo: false, showSendToCloud: false, displayModeBar: false, responsive: true, scrollZoom: false };
  const MOST_COLUMNS = 500;
  const MOST_LABELS = 45;
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  let seconds = false;
  const drawn = new Set();

  const colour = (role) => {
    probe.style.color = `var(--${role})`;
    return getComputedStyle(probe).color;
  };
  const painted = (value, key) => {
    if (typeof value === "string") return COLOURED.has(key) && value.startsWith("@") ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((one) => painted(one, key)) : value;
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, k)]));
  };
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const count = (number) => Math.round(number).toLocaleString("en-US");

  // Rounds and seconds: exact where a column begins, in between in proportion.
  const toX = (part, round) => {
    if (!seconds) return round;
    const at = (round - part.first) / part.width, low = Math.min(Math.max(0, Math.floor(at)), part.rounds.length - 1);
    const [a, b] = [part.seconds[low], part.seconds[low + 1] ?? part.seconds[low]];
    return a + (b - a) * Math.min(1, at - low);
  };
  const toRound = (part, x) => {
    if (!seconds) return x;
    let low = 0, high = part.rounds.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (part.seconds[middle] <= x) low = middle; else high = middle - 1;
    }
    const [a, b] = [part.seconds[low], part.seconds[low + 1] ?? part.seconds[low]];
    return part.first + part.width * (low + (b > a ? Math.min(1, (x - a) / (b - a)) : 0));
  };
  const clampRound = (part, round) => Math.min(part.last, Math.max(part.first, Math.round(round)));

  // Of a part of the trace only the requests that lived in it have a row.
  const living = (part, chart) => {
    if (!part.view) return chart.names.map((_, lane) => lane);
    const [a, b] = part.view, found = new Set();
    for (const flat of chart.segments)
      for (let i = 0; i < flat.length; i += 3) if (flat[i + 1] < b && flat[i + 2] > a) found.add(flat[i]);
    return [...found].sort((one, other) => one - other);
  };
  const lanes = (part, chart) => {
    chart.rows = living(part, chart);
    const row = new Map(chart.rows.map((lane, at) => [lane, at]));
    const shape = (flat, style) => {
      const x = [], y = [];
      for (let i = 0; i < flat.length; i += 3) {
        if (!row.has(flat[i])) continue;
        x.push(toX(part, flat[i + 1]), toX(part, flat[i + 2]), null);
        y.push(row.get(flat[i]), row.get(flat[i]), null);
      }
      return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", showlegend: false, ...style };
    };
    const traces = [shape(chart.holds, { name: "holds the line", line: { color: "@c5", width: 2 }, opacity: 0.55 })];
    PHASES.forEach(([name, role, , , dash], phase) =>
      traces.push(shape(chart.segments[phase], { name, line: { color: `@${role}`, width: 2, dash } })));
    const x = [], y = [];
    for (let i = 0; i < chart.retracted.length; i += 2) {
      if (!row.has(chart.retracted[i])) continue;
      y.push(row.get(chart.retracted[i]));
      x.push(toX(part, chart.retracted[i + 1]));
    }
    traces.push({ type: "scatter", mode: "markers", x, y, name: "retracted", hoverinfo: "skip", showlegend: false,
      marker: { symbol: "x-thin", size: 5, line: { width: 1.2, color: "@retracted" } } });
    return traces;
  };

  const traces = (part, chart) => {
    if (chart.name === "gantt") return lanes(part, chart);
    if (!chart.timed) return chart.data;
    const columns = joined(part);
    return chart.data.map((one) => {
      if (!one.x) return { ...one, x: columns.at.map((column) => toX(part, part.rounds[column])), y: columns.of(one.y) };
      const x = one.x.map((round) => toX(part, round));
      const wide = one.width ? { width: one.x.map((r) => toX(part, r + one.width) - toX(part, r)), offset: 0 } : {};
      return { ...one, x, ...wide };
    });
  };

  // The columns in view and one to each side, joined until a screen can tell them apart: the mean of each group.
  const joined = (part) => {
    const [a, b] = part.view ?? [part.first, part.last + 1], all = part.rounds.length;
    const many = Math.max(1, Math.ceil((b - a) / part.width / MOST_COLUMNS));
    const low = Math.max(0, Math.floor((a - part.first) / part.width / many) - 1) * many;
    const high = Math.min(all, Math.ceil((b - part.first) / part.width) + many);
    const at = [];
    for (let column = low; column < high; column += many) at.push(column);
    const mean = (values, column) => {
      let sum = 0, known = 0;
      for (let i = column; i < Math.min(all, column + many); i++) if (values[i] !== null) { sum += values[i]; known++; }
      return known ? sum / known : null;
    };
    return { at, rounds: many * part.width, of: (values) => at.map((column) => mean(values, column)) };
  };

  const layout = (part, chart) => {
    const base = {
      height: chart.height, margin: chart.timed ? { l: 118, r: 14, t: 8, b: chart.name === "gantt" ? 40 : 24 } : { l: 68, r: 14, t: 8, b: 36 }, hovermode: chart.timed ? "x unified" : "closest",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: "@text", size: 12, family: "system-ui, sans-serif" },
      hoverlabel: { bgcolor: "@raised", bordercolor: "@rule", font: { color: "@text" } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" }, barmode: "stack", bargap: 0,
      separators: ".,", ...chart.layout,
    };
    const axis = { gridcolor: "@grid", linecolor: "@rule", zeroline: false, automargin: true, tickformat: "," };
    base.xaxis = { ...axis, ...(base.xaxis ?? {}) };
    base.yaxis = { ...axis, ...(base.yaxis ?? {}), automargin: !chart.timed };
    const legend = chart.data.length > 1;
    base.showlegend = legend;
    if (legend) base.margin = { ...base.margin, t: 30 };
    if (chart.timed) {
      base.xaxis = { ...base.xaxis, range: shown(part), title: chart.name === "gantt" ? { text: seconds ? "seconds" : "round", standoff: 4 } : undefined,
        hoverformat: seconds ? ",.3f" : ",.0f", tickformat: seconds ? ",~g" : ",d" };
      base.yaxis.fixedrange = true;
      base.xaxis.automargin = false;
      base.shapes = shade(part, chart);
    }
    if (chart.name === "gantt") {
      const range = [Math.max(chart.rows.length, 1) - 0.5, -0.5];
      base.yaxis = { ...base.yaxis, fixedrange: false, range, showgrid: false, ...labels(chart, range) };
      base.hovermode = false;
      base.annotations = caption(part);
      base.margin.t = 24;
    } else if (chart.name.startsWith("hist-")) base.xaxis.tickformat = undefined;
    return base;
  };
  const labels = (chart, range) => {
    const [high, low] = [Math.max(...range), Math.min(...range)];
    const first = Math.max(0, Math.ceil(low)), last = Math.min(chart.rows.length - 1, Math.floor(high));
    const name = (at) => chart.names[chart.rows[at]];
    const every = last - first < MOST_LABELS ? Math.ceil((last - first + 1) * 17 / chart.height) : Math.ceil((last - first) / 12);
    const vals = [];
    for (let at = first; at <= last; at += every) vals.push(at);
    return { tickmode: "array", tickvals: vals, ticktext: vals.map((at) => plain(name(at).length > 15 ? name(at).slice(0, 14) + "…" : name(at))) };
  };
  const shown = (part) => {
    const [a, b] = part.view ?? [part.first, part.last + 1];
    return [toX(part, a), toX(part, b)];
  };
  const shade = (part, chart) => !part.shade ? [] : [{ type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below",
    x0: toX(part, part.shade[0]), x1: toX(part, part.shade[1] + 1), fillcolor: "@bad", opacity: 0.13, line: { width: 0 } },
  ];
  const caption = (part) => {
    if (!part.shade) return [];
    const [a, b] = part.view ?? [part.first, part.last + 1], from = Math.max(a, part.shade[0]), to = Math.min(b, part.shade[1] + 1);
    return from >= to ? [] : [{ x: toX(part, (from + to) / 2), xref: "x", y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
      text: part.shade[2], font: { color: "@bad", size: 14, weight: 700 } }];
  };

  const laneHeight = (node) => {
    const [a, b] = node._fullLayout.yaxis.range;
    return (node._fullLayout.height - 60) / Math.max(1, Math.abs(a - b));
  };
  const thicken = async (chart, node) => {
    const lane = laneHeight(node), wide = (share, least, most) => Math.min(most, Math.max(least, lane * share));
    const widths = [wide(1, 1.5, 19), ...PHASES.map(([, , share, most]) => wide(share, share > 0.5 ? 1 : 0.7, most))];
    await Plotly.restyle(node, { "line.width": widths }, [0, 1, 2, 3, 4]);
    await Plotly.restyle(node, { "marker.size": Math.min(9, Math.max(3, lane * 0.7)), "marker.line.width": lane > 6 ? 2 : 0.8 }, [5]);
  };

  const draw = async (part, chart) => {
    const node = document.getElementById(chart.id), timed = chart.timed;
    const first = !drawn.has(chart);
    if (first) drawn.add(chart);
    await Plotly.react(node, painted(traces(part, chart)), painted(layout(part, chart)), CONFIG);
    if (chart.name === "gantt") await thicken(chart, node);
    if (!first) return;
    if (timed) {
      node.on("plotly_relayout", (change) => moved(part, chart, node, change));
      node.on("plotly_doubleclick", () => { look(part, null); return false; });
      node.on("plotly_click", (event) => pick(part, toRound(part, event.points[0].x)));
    }
    if (chart.name === "gantt") hoverLanes(part, chart, node);
  };
  const moved = (part, chart, node, change) => {
    const a = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0], b = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    if (chart.name === "gantt" && (change["yaxis.range[0]"] !== undefined)) {
      const range = [change["yaxis.range[0]"], change["yaxis.range[1]"]];
      Plotly.relayout(node, Object.fromEntries(Object.entries(labels(chart, range)).map(([k, v]) => [`yaxis.${k}`, v])))
        .then(() => thicken(chart, node));
    }
    if (part.busy || a === undefined) return;
    look(part, [toRound(part, a), toRound(part, b)]);
  };

  // Everything that shows a part of the rounds goes through here: all charts of a part move together.
  const look = async (part, view) => {
    if (view) {
      const least = 4, all = part.last + 1 - part.first;
      const long = Math.max(Math.min(least, all), Math.min(all, view[1] - view[0]));
      const from = Math.min(Math.max(part.first, view[0]), part.last + 1 - long);
      part.view = [from, from + long];
    } else {
      part.view = null;
    }
    part.busy = true;
    const [a, b] = part.view ?? [part.first, part.last];
    part.form.first.value = clampRound(part, a);
    part.form.last.value = clampRound(part, b - (part.view ? 1 : 0));
    for (const chart of part.charts) {
      if (!chart.timed || !drawn.has(chart)) continue;
      await draw(part, chart);
    }
    tell(part);
    part.busy = false;
  };
  const tell = (part) => {
    const rounds = joined(part).rounds;
    const living = part.charts.find((chart) => chart.name === "gantt")?.rows;
    const requests = part.view && living ? `; ${count(living.length)} requests live here` : "";
    part.section.querySelector(".columns").textContent = (rounds === 1 ? "every round is shown" : `a column is ${count(rounds)} rounds`) + requests;
  };
  const move = (part, how) => {
    const [a, b] = part.view ?? [part.first, part.last + 1], long = b - a, middle = (a + b) / 2;
    if (how === "all") { part.shade = null; return look(part, null); }
    if (how === "left" || how === "right") {
      const by = (how === "left" ? -1 : 1) * long / 3;
      return look(part, [a + by, b + by]);
    }
    const half = how === "in" ? long / 4 : long;
    return look(part, [middle - half, middle + half]);
  };

  const place = document.getElementById("place"), tip = document.getElementById("tip");
  const shellWord = (text) => /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'"'"'`)}'`;
  const pick = (part, round) => {
    const at = clampRound(part, round), argument = shellWord(`${part.trace}@${part.part}:${at}`);
    place.replaceChildren(`round ${count(at)}, `, copyButton(argument), " ", copyButton(`tsviz open ${argument}`));
    place.hidden = false;
  };
  const copyButton = (text) => {
    const button = document.createElement("button"), code = document.createElement("code"), what = document.createElement("span");
    button.type = "button"; button.className = "copy"; button.dataset.copy = text;
    code.textContent = text; what.className = "what"; what.textContent = "copy";
    button.append(code, what);
    return button;
  };

  const hoverLanes = (part, chart, node) => {
    const byLane = new Map();
    chart.segments.forEach((flat, phase) => {
      for (let i = 0; i < flat.length; i += 3) {
        if (!byLane.has(flat[i])) byLane.set(flat[i], []);
        byLane.get(flat[i]).push([flat[i + 1], flat[i + 2], phase]);
      }
    });
    const retracted = new Map();
    for (let i = 0; i < chart.retracted.length; i += 2) retracted.set(chart.retracted[i], (retracted.get(chart.retracted[i]) ?? 0) + 1);
    const under = (event) => {
      const { xaxis, yaxis, _size: size } = node._fullLayout, box = node.getBoundingClientRect();
      const lane = chart.rows[Math.round(yaxis.p2d(event.clientY - box.top - size.t))], round = toRound(part, xaxis.p2d(event.clientX - box.left - size.l));
      return { lane, round };
    };
    node.addEventListener("mousemove", (event) => {
      const { lane, round } = under(event);
      const here = byLane.get(lane)?.find(([a, b]) => a <= round && round < b);
      if (!here) { tip.hidden = true; return; }
      const times = retracted.get(lane);
      tip.textContent = `${chart.names[lane]}\n${PHASES[here[2]][0]}: rounds ${count(here[0])} to ${count(here[1] - 1)}`
        + (times ? `\nretracted ${count(times)} times` : "");
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 280)}px`;
      tip.style.top = `${Math.min(event.clientY + 14, innerHeight - 90)}px`;
    });
    node.addEventListener("mouseleave", () => { tip.hidden = true; });
    node.addEventListener("click", (event) => pick(part, under(event).round));
  };

  const redraw = () => { for (const part of PARTS) for (const chart of part.charts) if (drawn.has(chart)) draw(part, chart); };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy !== undefined) {
      await copy(button.dataset.copy);
      const what = button.querySelector(".what");
      what.textContent = "copied";
      setTimeout(() => { what.textContent = "copy"; }, 1500);
    } else if (button.classList.contains("show")) {
      const part = PARTS.find((one) => one.part === button.dataset.part);
      const [a, b] = [Number(button.dataset.first), Number(button.dataset.last)], margin = Math.max(5, (b - a) / 4);
      part.shade = [a, b, button.dataset.label];
      look(part, [a - margin, b + 1 + margin]);
      part.section.scrollIntoView({ behavior: "smooth" });
    } else if (button.dataset.move) move(PARTS[button.closest(".timelines").dataset.number], button.dataset.move);
  });
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  const KEYS = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "all" };

  const unpacked = async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("plotly-packed").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };
  const start = async () => {
    PARTS.forEach((part, number) => {
      part.section = document.querySelector(`.timelines[data-number="${number}"]`);
      for (const chart of part.charts) chart.id = `chart-${number}-${chart.name}`;
      if (!part.section) return;
      part.form = part.section.querySelector("form").elements;
      part.form.first.value = part.first;
      part.form.last.value = part.last;
      tell(part);
      part.section.querySelector("form").addEventListener("submit", (event) => {
        event.preventDefault();
        const [a, b] = [Number(part.form.first.value.replace(/,/g, "")), Number(part.form.last.value.replace(/,/g, ""))];
        if (Number.isFinite(a) && Number.isFinite(b) && b >= a) look(part, [a, b + 1]);
      });
      part.section.querySelector(".tools").addEventListener("keydown", (event) => {
        if (event.target.tagName === "INPUT" || !(event.key in KEYS)) return;
        event.preventDefault();
        move(part, KEYS[event.key]);
      });
    });
    await unpacked();
    const waiting = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        waiting.unobserve(target);
        const part = PARTS.find((one) => one.charts.some((chart) => chart.id === target.id));
        draw(part, part.charts.find((chart) => chart.id === target.id));
      }
    }, { rootMargin: "600px" });
    for (const part of PARTS) for (const chart of part.charts) waiting.observe(document.getElementById(chart.id));
    document.documentElement.dataset.drawn = "true";
  };

  document.getElementById("theme").addEventListener("change", (event) => {
    if (event.target.value) document.documentElement.dataset.theme = event.target.value;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
  document.getElementById("axis").addEventListener("change", (event) => { seconds = event.target.value === "seconds"; redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  start().catch((error) => {
    for (const node of document.querySelectorAll(".chart")) {
      node.textContent = `This browser cannot draw the charts (${error.message}); the tables below hold the numbers.`;
      node.style.height = "auto";
    }
  });
})();

"use strict";
// Charts of a series: usage by kind against its limits, events as marks, then NUMA nodes and pressure.
memqos.charts = (() => {
  const { element, blob } = memqos;
  const MIB = 1048576;
  // Name, colour in light and dark, dashes; limits are steps, usage is lines.
  const KINDS = [
    ["anon", "#1f6fb5", "#6db3f2"], ["file", "#2c8a57", "#6fd19b"], ["memory.swap.current", "#8a4fb0", "#cf9df0"], ["memory.current", "#17202a", "#e6ebf0"],
    ["memory.min", "#7a6a00", "#d8c64a", [2, 3]], ["memory.low", "#9a7b00", "#f0d060", [6, 3]],
    ["memory.high", "#c05a00", "#ffab5e", [10, 4]], ["memory.max", "#b3161f", "#ff8f8f", [14, 3, 2, 3]], ["memory.swap.max", "#8a4fb0", "#cf9df0", [3, 5]],
  ];
  // Lines of the series that is compared with.
  const OVER = [["memory.current", "#d1268b", "#ff8ac8"], ["memory.min", "#d1268b", "#ff8ac8", [2, 3]], ["memory.low", "#d1268b", "#ff8ac8", [6, 3]], ["memory.high", "#a31768", "#ffb3dc", [10, 4]], ["memory.max", "#7a0f4d", "#ffd0ea", [14, 3, 2, 3]]];
  const NODES = [["#1f6fb5", "#6db3f2"], ["#c05a00", "#ffab5e"], ["#2c8a57", "#6fd19b"], ["#8a4fb0", "#cf9df0"]];
  const AGAIN = [["refault anon", "#1f6fb5", "#6db3f2"], ["refault file", "#2c8a57", "#6fd19b"]];
  const PRESSURE = [["some", "#9a7b00", "#f0d060"], ["full", "#b3161f", "#ff8f8f"]];
  const drawn = new Set();

  const isDark = () => getComputedStyle(document.documentElement).colorScheme.includes("dark")
    && (document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches));
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shortName = (cgroup) => cgroup.split("/").filter(Boolean).slice(-1)[0]?.replace(/([0-9a-f]{12})[0-9a-f]{40,}/, "$1…") || "/";
  const most = (chart) => Math.max(0, ...(chart.columns["memory.current"] || chart.columns.anon || [0]).map((one) => one || 0));

  // The panels of a chart, each with its columns.
  const panelsOf = (chart, over) => {
    const lines = KINDS.filter(([name]) => chart.columns[name]?.some((one) => one))
      .map(([name, light, dark, dash]) => ({ name, values: chart.columns[name], light, dark, dash, steps: Boolean(dash) }));
    const panels = [{ title: "memory", unit: "MiB", scale: MIB, digits: 1, counted: "bytes", tall: 300, times: chart.times, lines, marks: chart.marks }];
    if (over) {
      const names = OVER.filter(([name]) => over.chart.columns[name]?.some((one) => one));
      const joined = uPlot.join([[chart.times, ...lines.map((one) => one.values)], [over.chart.times, ...names.map(([name]) => over.chart.columns[name])]]);
      lines.push(...names.map(([name, light, dark, dash]) => ({ name: `${over.name}: ${name}`, light, dark, dash, steps: Boolean(dash) })));
      lines.forEach((one, number) => { one.values = joined[1 + number]; });
      Object.assign(panels[0], { times: joined[0], joined: true });
    }
    const nodes = Object.keys(chart.columns).filter((name) => / N\d+$/.test(name) && chart.columns[name].some((one) => one)).sort();
    if (nodes.length) panels.push({ title: "memory by NUMA node", unit: "MiB", scale: MIB, digits: 1, counted: "bytes", tall: 200, times: chart.times, marks: [], lines: nodes.map((name) => {
      const node = Number(/N(\d+)$/.exec(name)[1]) % NODES.length;
      return { name, values: chart.columns[name], light: NODES[node][0], dark: NODES[node][1], dash: name.startsWith("file") ? [4, 3] : null };
    }) });
    const again = AGAIN.filter(([name]) => chart.columns[name]).map(([name, light, dark]) => ({ name, values: chart.columns[name], light, dark }));
    if (again.length) panels.push({ title: "refaults (pages read again after reclaim)", unit: "pages", scale: 1, digits: 0, counted: "pages", tall: 140, times: chart.times, lines: again, marks: [] });
    const pressures = PRESSURE.filter(([name]) => chart.columns[name]).map(([name, light, dark]) => ({ name, values: chart.columns[name], light, dark }));
    if (pressures.length) panels.push({ title: `pressure (${chart.pressure})`, unit: "%", scale: 1, digits: 2, counted: "%", tall: 140, times: chart.times, lines: pressures, marks: [] });
    return panels;
  };

  const amount = (value, panel) => value === null || value === undefined ? "–" : `${(value / panel.scale).toFixed(panel.digits)} ${panel.unit}`;

  // Positions of events, and which get a label: among events close together, kills and ends, and few others.
  const placed = (marks, place, apart) => {
    let last = -Infinity;
    return marks.map((mark) => {
      const x = place(mark.at), isEnd = /oom|gone|fail|empty/.test(mark.what), whole = isEnd || x - last > apart;
      if (whole) last = x;
      return { x, whole, what: mark.what };
    });
  };

  const markPlugin = (panel) => ({ hooks: { draw: (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    ctx.strokeStyle = ink("--bad"); ctx.fillStyle = ink("--bad"); ctx.lineWidth = devicePixelRatio; ctx.font = `${11 * devicePixelRatio}px sans-serif`; ctx.textAlign = "left"; ctx.textBaseline = "alphabetic";
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { x, whole, what } of placed(panel.marks, (at) => plot.valToPos(at, "x", true), 90 * devicePixelRatio)) {
      ctx.beginPath(); ctx.moveTo(x, bbox.top + (whole ? 0 : bbox.height - 8 * devicePixelRatio)); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      if (whole) ctx.fillText(what, x + 3 * devicePixelRatio, bbox.top + 12 * devicePixelRatio);
    }
    ctx.restore();
  } } });

  const plotOf = (panel, box, sync, said) => {
    const dark = isDark();
    const axis = { stroke: ink("--faint"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 } };
    const options = {
      width: Math.max(260, box.clientWidth), height: panel.tall, cursor: { sync: { key: sync }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high || 0, panel.scale === 1 ? 1 : MIB) * 1.08] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((one) => `${Number(one.toFixed(3))} s`) },
        { ...axis, size: 62, incrs: panel.scale === 1 ? undefined : Array.from({ length: 30 }, (_, number) => MIB / 16 * 2 ** number), values: (_, ticks) => ticks.map((one) => `${Number((one / panel.scale).toFixed(2))}`), label: panel.unit, labelSize: 16, labelFont: "12px sans-serif" }],
      series: [{ label: "time", value: (_, value) => value === null || value === undefined ? "–" : `${value.toFixed(3)} s` }, ...panel.lines.map((line) => ({
        label: line.name, stroke: dark ? line.dark : line.light, width: line.steps ? 1.5 : 2, dash: line.dash || undefined, points: { show: false }, spanGaps: Boolean(panel.joined),
        paths: line.steps ? uPlot.paths.stepped({ align: 1 }) : undefined, value: (_, value) => amount(value, panel),
      }))],
      plugins: [markPlugin(panel)],
      hooks: { setCursor: [(plot) => { if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) said(plot.cursor.idx, panel); }] },
    };
    box.append(element("p", { class: "panel" }, `${panel.title}, ${panel.unit}`));
    const plot = new uPlot(options, [panel.times, ...panel.lines.map((line) => line.values)], box);
    const over = plot.over;
    over.tabIndex = 0;
    over.setAttribute("role", "img");
    over.setAttribute("aria-label", `${panel.title} over ${panel.times.at(-1).toFixed(1)} s: ${panel.lines.map((line) => `${line.name} at most ${amount(Math.max(...line.values.map((one) => one || 0)), panel)}`).join(", ")}. Arrow keys read values.`);
    let at = 0;
    over.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") plot.setScale("x", { min: panel.times[0], max: panel.times.at(-1) });
      if (!step) return;
      event.preventDefault();
      at = Math.min(panel.times.length - 1, Math.max(0, at + step));
      plot.setCursor({ left: plot.valToPos(panel.times[at], "x"), top: 10 });
      said(at, panel);
    });
    return plot;
  };

  const save = (name, type, text) => {
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const csv = (panel) => [["seconds", ...panel.lines.map((line) => `${line.name} (${panel.counted})`), "event"],
    ...panel.times.map((at, number) => [at, ...panel.lines.map((line) => line.values[number] ?? ""), panel.marks.filter((mark) => mark.at === at).map((mark) => mark.what).join("; ")])]
    .map((row) => row.map((one) => /[",\n]/.test(String(one)) ? `"${String(one).replaceAll('"', '""')}"` : one).join(",")).join("\r\n") + "\r\n";

  // The lines of the canvas as SVG, for documents.
  const svg = (panels, title) => {
    const NS = "http://www.w3.org/2000/svg", wide = 960, left = 70, right = 20;
    const node = (name, attributes, text) => { const made = document.createElementNS(NS, name); for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value); if (text !== undefined) made.textContent = text; return made; };
    const all = node("svg", { xmlns: NS, viewBox: `0 0 ${wide} ${panels.reduce((sum, panel) => sum + panel.tall + 90, 30)}`, "font-family": "sans-serif", "font-size": 12 });
    all.append(node("rect", { width: "100%", height: "100%", fill: "#fff" }), node("text", { x: left, y: 20, "font-weight": "bold" }, title));
    let top = 40;
    for (const panel of panels) {
      const first = panel.times[0], last = panel.times.at(-1) || 1;
      const high = Math.max(panel.scale === 1 ? 1 : MIB, ...panel.lines.flatMap((line) => line.values.map((one) => one || 0))) * 1.08;
      const x = (at) => left + (at - first) / ((last - first) || 1) * (wide - left - right), y = (value) => top + panel.tall - value / high * panel.tall;
      for (let tick = 0; tick <= 4; tick += 1) {
        const value = high * tick / 4, at = first + (last - first) * tick / 4;
        all.append(node("line", { x1: left, x2: wide - right, y1: y(value), y2: y(value), stroke: "#ddd" }), node("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, (value / panel.scale).toFixed(1)),
          node("text", { x: x(at), y: top + panel.tall + 16, "text-anchor": "middle" }, `${at.toFixed(1)} s`));
      }
      all.append(node("text", { x: left, y: top - 4, fill: "#555" }, `${panel.title}, ${panel.unit}`));
      for (const line of panel.lines) {
        let path = "", before = null;
        line.values.forEach((value, number) => {
          if (value === null || value === undefined) { if (!panel.joined) before = null; return; }
          const point = `${x(panel.times[number]).toFixed(1)} ${y(value).toFixed(1)}`;
          path += before === null ? `M${point}` : line.steps ? `H${x(panel.times[number]).toFixed(1)}V${y(value).toFixed(1)}` : `L${point}`;
          before = value;
        });
        all.append(node("path", { d: path || "M0 0", fill: "none", stroke: line.light, "stroke-width": 1.6, "stroke-dasharray": (line.dash || []).join(" ") }));
      }
      for (const mark of placed(panel.marks, x, 90)) {
        all.append(node("line", { class: mark.whole ? "event" : "tick", x1: mark.x, x2: mark.x, y1: top + (mark.whole ? 0 : panel.tall - 8), y2: top + panel.tall, stroke: "#b3161f", "stroke-dasharray": "2 3" }));
        if (mark.whole) all.append(node("text", { x: mark.x + 3, y: top + 12, fill: "#b3161f", "font-size": 10 }, mark.what));
      }
      panel.lines.forEach((line, number) => all.append(node("text", { x: left + (number % 5) * 175, y: top + panel.tall + 36 + 16 * Math.floor(number / 5), fill: line.light }, `— ${line.name}`)));
      top += panel.tall + 90;
    }
    return `<?xml version="1.0" encoding="utf-8"?>\n${new XMLSerializer().serializeToString(all)}\n`;
  };

  // One cgroup's chart with its tools.
  const figure = (chart, others, title) => {
    const said = element("p", { class: "said", "aria-live": "polite" });
    const canvases = element("div", { class: "plots" });
    const sync = `sync-${Math.random()}`;
    let panels = [], plots = [], over = null;
    const sayAt = (at, panel) => { said.textContent = `${panel.times[at].toFixed(3)} s: ${panel.lines.map((line) => `${line.name} ${amount(line.values[at], panel)}`).join(", ")}`; };
    const draw = () => {
      plots.forEach((plot) => plot.destroy());
      panels = panelsOf(chart, over);
      canvases.replaceChildren();
      plots = panels.map((panel) => plotOf(panel, canvases, sync, sayAt));
    };
    const zoom = (factor) => plots.forEach((plot, number) => {
      const { min, max } = plot.scales.x, times = panels[number].times, middle = plot.cursor.idx ? times[plot.cursor.idx] : (min + max) / 2, half = (max - min) * factor / 2;
      plot.setScale("x", factor ? { min: Math.max(times[0], middle - half), max: Math.min(times.at(-1), middle + half) } : { min: times[0], max: times.at(-1) });
    });
    const name = shortName(chart.cgroup).replace(/[^\w.-]+/g, "_").slice(0, 80);
    const select = element("select", { "aria-label": "Compare with another series" }, element("option", { value: "" }, "compare with: none"),
      others.map((other, number) => element("option", { value: number }, other.name)));
    select.addEventListener("input", async () => {
      const other = others[Number(select.value)];
      over = select.value === "" ? null : { name: other.name, chart: await other.chart() };
      if (over && !over.chart) over = null;
      draw();
    });
    const tools = element("div", { class: "tools" },
      element("button", { type: "button", onclick: () => zoom(0.5) }, "Zoom in"), element("button", { type: "button", onclick: () => zoom(0) }, "Whole series"),
      element("button", { type: "button", onclick: () => panels.forEach((panel, number) => save(`${name}${number ? `-${number}` : ""}.csv`, "text/csv", csv(panel))) }, "CSV"),
      element("button", { type: "button", onclick: () => save(`${name}.svg`, "image/svg+xml", svg(panels, title)) }, "SVG"), select);
    const made = element("figure", { class: "chart" }, element("h4", {}, title), tools, canvases, said,
      chart.marks.length ? element("details", {}, element("summary", {}, `events (${chart.marks.length})`), element("ul", {}, chart.marks.map((mark) => element("li", {}, `${mark.at.toFixed(3)} s: ${mark.what}`)))) : null,
      element("figcaption", { class: "hint" }, `${chart.cgroup}, ${chart.looks} samples. Drag to zoom, double click for the whole series.`));
    made.draw = draw;
    return made;
  };

  const SHOWN = 3;
  const slowed = (chart) => Boolean(chart.columns["memory.high"]);
  const section = (charts, index, one, subjects) => {
    const nameOf = (cgroup) => subjects.get(cgroup) || shortName(cgroup);
    const sorted = [...charts].filter((chart) => Object.keys(chart.columns).length).sort((first, second) => subjects.has(second.cgroup) - subjects.has(first.cgroup) || slowed(second) - slowed(first) || most(second) - most(first));
    const cases = index.cases.filter((other) => other.charts && other.evidence !== one.evidence);
    const biggest = async (other) => [...((await blob(other.evidence)).charts || [])].sort((first, second) => most(second) - most(first))[0];
    const figures = sorted.map((chart) => figure(chart, [
      ...sorted.filter((other) => other !== chart).map((other) => ({ name: nameOf(other.cgroup), chart: async () => other })),
      ...cases.map((other) => ({ name: other.id.split("::").pop(), chart: () => biggest(other) })),
    ], nameOf(chart.cgroup)));
    const more = figures.slice(SHOWN);
    const folded = more.length ? element("details", {}, element("summary", {}, `${more.length} other cgroups`), more) : null;
    folded?.addEventListener("toggle", () => { if (folded.open) more.forEach((made) => { made.draw(); drawn.add(made); }); });
    return element("div", {}, figures.slice(0, SHOWN), folded);
  };

  const redraw = () => drawn.forEach((made) => { if (made.isConnected) made.draw(); else drawn.delete(made); });
  const draw = (within) => within.querySelectorAll("figure.chart").forEach((made) => { if (made.closest("details:not([open])")) return; made.draw(); drawn.add(made); });
  let resizing = 0;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return { section, draw, redraw };
})();

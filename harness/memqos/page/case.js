"use strict";
// One case: its claim, findings with their reasons, the tree, requests, logs and charts.
memqos.caseView = (index) => {
  const { element, byId, badge, blob } = memqos;
  const VERDICTS = { conforms: 0, deviates: 1, known: 2, "not observable": 3 };
  const TONES = { deviates: " bad", machinery: " broken", usage: " broken" };
  const folded = (title, attributes, ...children) => element("details", attributes, element("summary", {}, title), ...children);
  const table = (label, kind, names, rows) => element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    element("table", { class: kind }, element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, rows)));
  const amount = (text) => {
    const bytes = /^\d{4,}$/.test(text) ? Number(text) : 0;
    return bytes >= 1048576 ? ` (${(bytes / 1048576).toFixed(1).replace(/\.0$/, "")} MiB)` : "";
  };
  const value = (text, knob) => text === null || text === undefined || text === "" ? element("span", { class: "zero" }, text === "" ? "(empty)" : "–")
    : element("span", { class: "mono" }, text, /memory/.test(knob) ? amount(text) : "");

  const reasonView = (reason) => element("div", { class: "reason" },
    element("p", { class: "rule" }, reason.rule || ""),
    element("dl", {},
      reason.source || reason.revision ? [element("dt", {}, "source"), element("dd", {}, [reason.revision, reason.source].filter(Boolean).join("; "))] : null,
      (reason.inputs || []).map((one) => [element("dt", {}, "given"), element("dd", {}, `${one.name} = ${one.value}  [${one.origin}]`)]),
      reason.arithmetic ? [element("dt", {}, "sum"), element("dd", { class: "mono" }, reason.arithmetic)] : null,
      reason.rounding ? [element("dt", {}, "rounding"), element("dd", {}, reason.rounding)] : null),
    (reason.because || []).map(reasonView));

  // Shortens the long name that a runtime gives a container; the tooltip has the whole name.
  const shortened = (path) => path.replace(/([0-9a-f]{12})[0-9a-f]{40,}/g, "$1…");

  const why = (finding, reasons) => {
    const parts = [];
    if (finding.why_not) parts.push(element("p", {}, `not observable: ${finding.why_not}`));
    if (finding.lost) parts.push(element("p", { class: "lost" }, finding.lost.told),
      element("ul", {}, (finding.lost.hops || []).map((hop) => element("li", {}, `${hop.hop}: asked ${hop.asked.join(", ") || "nothing"}; held ${hop.held || "nothing"}${hop.why_not ? ` (${hop.why_not})` : ""}`))));
    for (const [name, text] of Object.entries(finding.evidence || {})) parts.push(element("p", {}, `${name}: ${text}`));
    if (finding.reason >= 0) parts.push(reasonView(reasons[finding.reason]));
    return parts.length ? folded("why", { class: "why-it", open: finding.verdict === "deviates" }, parts) : null;
  };

  const findingsView = (told, reasons) => {
    const order = ["deviates", "known", "not observable", "conforms"];
    const sorted = [...told].sort((one, other) => order.indexOf(one.verdict) - order.indexOf(other.verdict));
    const cells = (finding) => [
      element("td", {}, element("span", { class: `badge b${VERDICTS[finding.verdict]}` }, finding.verdict)),
      element("td", { class: "what" }, element("strong", {}, finding.knob), ` of ${finding.subject}`, finding.cgroup ? element("span", { class: "sub mono", title: finding.cgroup }, shortened(finding.cgroup)) : null),
      element("td", { "data-name": "expected" }, value(finding.expected, finding.knob)),
      element("td", { "data-name": "observed", class: finding.verdict === "deviates" ? "differs" : null }, value(finding.observed, finding.knob)),
      element("td", { "data-name": "set by" }, finding.set_by)];
    const reasoned = (finding) => {
      const told = why(finding, reasons);
      return told ? element("tr", { class: "reasoned" }, element("td", {}), element("td", { colspan: 4 }, told)) : null;
    };
    const shown = (findings) => table("Findings", "findings", ["verdict", "what", "expected", "observed", "set by"],
      findings.flatMap((finding) => [element("tr", {}, cells(finding)), reasoned(finding)]).filter(Boolean));
    const good = sorted.filter((finding) => finding.verdict === "conforms");
    if (good.length === sorted.length || good.length < 4) return shown(sorted);
    return [shown(sorted.slice(0, sorted.length - good.length)), folded(`${good.length} that conform`, {}, shown(good))];
  };

  // The plan's and the kernel's values side by side; for a judged file, those of its finding.
  const treeView = (tree, findings) => {
    const nodes = new Map(tree.map((node) => [node.path, { ...node, judged: new Map() }]));
    for (const finding of findings) {
      if (!finding.cgroup) continue;
      if (!nodes.has(finding.cgroup)) nodes.set(finding.cgroup, { path: finding.cgroup, level: "container", judged: new Map() });
      nodes.get(finding.cgroup).judged.set(finding.knob, finding);
    }
    const near = (path) => findings.some((one) => one.cgroup === path || (one.cgroup || "").startsWith(path === "/" ? "/" : `${path}/`) || (one.cgroup && path.startsWith(`${one.cgroup}/`)));
    const body = element("tbody");
    const show = (all) => {
      const rows = [];
      for (const node of [...nodes.values()].filter((one) => all || near(one.path)).sort((one, other) => one.path < other.path ? -1 : 1)) {
        const names = [...new Set([...Object.keys(node.expected || {}), ...Object.keys(node.observed || {}), ...node.judged.keys()])].sort();
        const depth = node.path.split("/").length - 2;
        rows.push(element("tr", { class: "path" }, element("th", { colspan: 4, scope: "rowgroup", title: node.path }, "· ".repeat(Math.max(0, depth)), shortened(node.path.split("/").pop()) || "/", node.level ? ` (${node.level})` : "")));
        for (const name of names) {
          const judged = node.judged.get(name);
          const expected = judged ? judged.expected : (node.expected || {})[name];
          const observed = judged ? judged.observed : (node.observed || {})[name];
          const differs = judged && (judged.verdict === "deviates" || judged.verdict === "known");
          rows.push(element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value(expected, name)),
            element("td", { class: differs ? "differs" : null }, value(observed, name)), element("td", {}, judged ? judged.verdict : "not judged here")));
        }
      }
      body.replaceChildren(...rows);
    };
    const box = element("input", { type: "checkbox" });
    box.addEventListener("input", () => show(box.checked));
    show(false);
    return [element("label", {}, box, ` all ${nodes.size} cgroups`),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Interface files by cgroup" }, element("table", { class: "tree" },
        element("thead", {}, element("tr", {}, ["file", "expected", "observed", "verdict"].map((name) => element("th", { scope: "col" }, name)))), body))];
  };

  const json = (what) => element("pre", {}, typeof what === "string" ? what : JSON.stringify(what, null, 1));
  const requestView = (one) => folded(`${one.method}  ${Number(one.seconds || 0).toFixed(3)} s${one.error ? "  (refused)" : ""}`, {},
    element("p", { class: "hint" }, one.at || ""), one.error ? element("p", { class: "differs" }, one.error) : null,
    element("h4", {}, "request"), json(one.request), element("h4", {}, "reply"), json(one.reply));

  const evidenceView = (evidence, findings, one) => {
    const parts = [];
    if (evidence.told) parts.push(element("p", { class: "note" }, evidence.told.join("\n")));
    if ((evidence.charts || []).length) parts.push(element("h3", {}, "Charts"), memqos.charts.section(evidence.charts, index, one, new Map(findings.map((finding) => [finding.cgroup, finding.subject]))));
    if (findings.some((finding) => finding.cgroup) || evidence.tree) parts.push(element("h3", {}, "Interface files, expected and observed"), folded("by cgroup", { open: one.outcome === 1 }, treeView(evidence.tree || [], findings)));
    if (evidence.manifests) parts.push(element("h3", {}, "Manifests"), evidence.manifests.map((text) => folded("pods and the kubelet's configuration as given", {}, element("pre", {}, text))));
    if (evidence.requests) parts.push(element("h3", {}, `Requests to the runtime (${evidence.requests.length})`), evidence.requests.map(requestView));
    if (evidence.logs) parts.push(element("h3", {}, "Logs"), Object.entries(evidence.logs).map(([name, text]) => folded(name, {}, element("pre", {}, text))));
    if (evidence.files) parts.push(element("p", { class: "hint" }, `In the results folder, ${evidence.folder}: ${evidence.files.join(", ")}`));
    return parts;
  };

  // Links from one failed case to the next.
  const wrong = index.cases.filter((one) => index.outcomes[one.outcome] in TONES);
  const beside = (one) => {
    const place = wrong.indexOf(one);
    if (place < 0 || wrong.length < 2) return null;
    const to = (number, word) => wrong[number] ? element("a", { href: `#case-${wrong[number].number}` }, word) : null;
    return [to(place - 1, "Previous"), to(place + 1, "Next"), element("span", { class: "hint" }, `${place + 1} of ${wrong.length} failed cases`)].filter(Boolean);
  };

  return async (one) => {
    const section = byId("case");
    const told = (await blob(`findings-${Math.floor(one.number / index.at_once)}`));
    const mine = told.cases[one.number % index.at_once];
    const evidence = one.evidence ? await blob(one.evidence) : {};
    const claim = memqos.claimOf(index, one.claim);
    const column = index.columns[one.column];
    const title = element("h2", { id: "case-title", tabindex: -1 }, badge(index, one.outcome), ` ${one.id}`);
    section.replaceChildren(element("p", { class: "ways" }, element("a", { href: "#cases" }, "Back to the cases"), beside(one)), title, ...[
      claim || !one.claim ? element("p", { class: "sentence" }, claim ? claim.sentence : "This test cites no claim.") : null,
      claim ? element("p", { class: "source" }, `Source: ${claim.source}`) : null,
      element("p", { class: "hint" }, [one.claim && `claim ${one.claim}`, one.machine && `machine ${one.machine}`, one.host && `on ${one.host}`,
        column && [column.profile, column.runtime, column.driver && `${column.driver} driver`, column.release && `Kubernetes ${column.release}`].filter(Boolean).join(", "),
        `${one.seconds.toFixed(1)} s${one.before === null ? "" : ` (${one.before.toFixed(1)} s before)`}`].filter(Boolean).join(" · ")),
      one.reason ? element("p", { class: `note${TONES[index.outcomes[one.outcome]] || ""}` }, one.reason) : null,
      one.attempts.length ? [element("p", { class: "label" }, "Run again:"), one.attempts.map((text) => element("p", { class: "note" }, text))] : null,
      one.again ? [element("p", { class: "label" }, "Rerun only this case:"), element("pre", { class: "command" }, one.again)] : null,
      mine.findings.length ? [element("h3", {}, `Findings (${mine.findings.length})`), findingsView(mine.findings, told.reasons)] : element("p", {}, "No findings."),
      mine.text && mine.text !== one.reason ? folded("output of the run", {}, element("pre", {}, mine.text)) : null,
      evidenceView(evidence, mine.findings, one),
      one.evidence ? null : element("p", { class: "hint" }, one.folder ? `The evidence is not in this file, but in the results folder: ${one.folder}` : "The run kept no separate evidence for this case."),
    ].flat(9).filter(Boolean));
    document.body.dataset.view = "case";
    memqos.charts.draw(section);
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
  };
};

"use strict";
// One case: its claim, findings with their reasons, the tree, requests, logs and charts.
memqos.caseView = (index) => {
  const { element, byId, badge, blob } = memqos;
  const VERDICTS = { conforms: 0, deviates: 1, known: 2, "not observable": 3 };
  const folded = (title, attributes, ...children) => element("details", attributes, element("summary", {}, title), ...children);
  const table = (label, kind, names, rows) => element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    element("table", { class: kind }, element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, rows)));
  const amount = (text) => {
    const bytes = /^\d{4,}$/.test(text) ? Number(text) : 0;
    return bytes >= 1048576 ? ` (${(bytes / 1048576).toFixed(1).replace(/\.0$/, "")} MiB)` : "";
  };
  const value = (text, knob) => text === null || text === undefined || text === "" ? element("span", { class: "zero" }, text === "" ? "(empty)" : "–")
    : element("span", { class: "mono" }, text, /^memory\./.test(knob) ? amount(text) : "");

  const reasonView = (reason) => element("div", { class: "reason" },
    element("p", { class: "rule" }, reason.rule || ""),
    element("dl", {},
      reason.source || reason.revision ? [element("dt", {}, "source"), element("dd", {}, [reason.revision, reason.source].filter(Boolean).join("; "))] : null,
      (reason.inputs || []).map((one) => [element("dt", {}, "given"), element("dd", {}, `${one.name} = ${one.value}  [${one.origin}]`)]),
      reason.arithmetic ? [element("dt", {}, "sum"), element("dd", { class: "mono" }, reason.arithmetic)] : null,
      reason.rounding ? [element("dt", {}, "rounding"), element("dd", {}, reason.rounding)] : null),
    (reason.because || []).map(reasonView));

  const why = (finding, reasons) => {
    const parts = [];
    if (finding.why_not) parts.push(element("p", {}, `not observable: ${finding.why_not}`));
    if (finding.lost) parts.push(element("p", {}, finding.lost.by ? `first lost by ${finding.lost.by}` : "not known who lost it", finding.lost.told ? `: ${finding.lost.told}` : ""),
      element("ul", {}, (finding.lost.hops || []).map((hop) => element("li", {}, `${hop.hop}: asked ${hop.asked.join(", ") || "nothing"}; held ${hop.held || "nothing"}${hop.why_not ? ` (${hop.why_not})` : ""}`))));
    for (const [name, text] of Object.entries(finding.evidence || {})) parts.push(element("p", {}, `${name}: ${text}`));
    if (finding.reason >= 0) parts.push(reasonView(reasons[finding.reason]));
    return parts.length ? folded("why", { class: "why-it", open: finding.verdict === "deviates" }, parts) : null;
  };

  const findingsView = (told, reasons) => {
    const order = ["deviates", "known", "not observable", "conforms"];
    const sorted = [...told].sort((one, other) => order.indexOf(one.verdict) - order.indexOf(other.verdict));
    return table("Findings", "findings", ["verdict", "what", "expected", "observed", "set by"], sorted.map((finding) => element("tr", {},
      element("td", {}, element("span", { class: `badge b${VERDICTS[finding.verdict]}` }, finding.verdict)),
      element("td", { class: "what" }, element("strong", {}, finding.knob), ` of ${finding.subject}`, element("span", { class: "sub mono" }, finding.cgroup || ""), why(finding, reasons)),
      element("td", { "data-name": "expected" }, value(finding.expected, finding.knob)),
      element("td", { "data-name": "observed" }, value(finding.observed, finding.knob)),
      element("td", { "data-name": "set by" }, finding.set_by))));
  };

  // The plan's and the kernel's values beside each other; what a finding judged is what the finding says.
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
        rows.push(element("tr", { class: "path" }, element("th", { colspan: 4, scope: "rowgroup" }, "· ".repeat(Math.max(0, depth)), node.path.split("/").pop() || "/", node.level ? ` (${node.level})` : "")));
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
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Control files by cgroup" }, element("table", { class: "tree" },
        element("thead", {}, element("tr", {}, ["file", "expected", "observed", "verdict"].map((name) => element("th", { scope: "col" }, name)))), body))];
  };

  const json = (what) => element("pre", {}, typeof what === "string" ? what : JSON.stringify(what, null, 1));
  const requestView = (one) => folded(`${one.method}  ${Number(one.seconds || 0).toFixed(3)} s${one.error ? "  (refused)" : ""}`, {},
    element("p", { class: "hint" }, one.at || ""), one.error ? element("p", { class: "differs" }, one.error) : null,
    element("h4", {}, "request"), json(one.request), element("h4", {}, "reply"), json(one.reply));

  const evidenceView = (evidence, findings, one) => {
    const parts = [];
    if (evidence.told) parts.push(element("p", { class: "note" }, evidence.told.join("\n")));
    if ((evidence.charts || []).length) parts.push(element("h3", {}, "Course"), memqos.charts.section(evidence.charts, index, one, new Map(findings.map((finding) => [finding.cgroup, finding.subject]))));
    if (findings.some((finding) => finding.cgroup) || evidence.tree) parts.push(element("h3", {}, "Control files, expected and observed"), folded("by cgroup", { open: one.outcome === 1 }, treeView(evidence.tree || [], findings)));
    if (evidence.manifests) parts.push(element("h3", {}, "Manifests"), evidence.manifests.map((text) => folded("pods and the kubelet's configuration as they were given", {}, element("pre", {}, text))));
    if (evidence.requests) parts.push(element("h3", {}, `Requests to the runtime (${evidence.requests.length})`), evidence.requests.map(requestView));
    if (evidence.logs) parts.push(element("h3", {}, "Logs"), Object.entries(evidence.logs).map(([name, text]) => folded(name, {}, element("pre", {}, text))));
    if (evidence.files) parts.push(element("p", { class: "hint" }, `In the results folder, ${evidence.folder}: ${evidence.files.join(", ")}`));
    return parts;
  };

  return async (one) => {
    const section = byId("case");
    const told = (await blob(`findings-${Math.floor(one.number / index.at_once)}`));
    const mine = told.cases[one.number % index.at_once];
    const evidence = one.evidence ? await blob(one.evidence) : {};
    const claim = memqos.claimOf(index, one.claim);
    const column = index.columns[one.column];
    const title = element("h2", { id: "case-title", tabindex: -1 }, badge(index, one.outcome), ` ${one.id}`);
    section.replaceChildren(element("p", {}, element("a", { href: "#cases" }, "Back to the cases")), title, ...[
      element("p", { class: "sentence" }, claim ? claim.sentence : one.claim ? `claim ${one.claim}` : "It cites no claim."),
      claim ? element("p", { class: "source" }, `Source: ${claim.source}`) : null,
      element("p", { class: "hint" }, [one.claim && `claim ${one.claim}`, one.machine && `machine ${one.machine}`,
        column && [column.profile, column.runtime, column.driver && `${column.driver} driver`, column.release && `Kubernetes ${column.release}`].filter(Boolean).join(", "),
        `${one.seconds.toFixed(1)} s`].filter(Boolean).join(" · ")),
      one.reason ? element("p", { class: "note" }, one.reason) : null,
      one.again ? element("p", {}, "Run just this again: ", element("code", {}, one.again)) : null,
      mine.findings.length ? [element("h3", {}, `Findings (${mine.findings.length})`), findingsView(mine.findings, told.reasons)] : element("p", {}, "It made no finding."),
      mine.text && mine.text !== one.reason ? folded("what the run said", {}, element("pre", {}, mine.text)) : null,
      evidenceView(evidence, mine.findings, one),
      one.evidence ? null : element("p", { class: "hint" }, one.folder ? `Its evidence is not in this file, but in the results folder: ${one.folder}` : "The run kept no evidence of its own for it."),
    ].flat(9).filter(Boolean));
    document.body.dataset.view = "case";
    memqos.charts.draw(section);
    scrollTo(0, 0);
    title.focus({ preventScroll: true });
  };
};

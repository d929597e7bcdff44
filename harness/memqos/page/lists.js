"use strict";
// Shared by all parts: elements made of text only, and unpacked data.
const memqos = {};

memqos.byId = (id) => document.getElementById(id);

// An element with attributes and children; a child that is not an element becomes text, whatever its content.
memqos.element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined).map((child) => child instanceof Node ? child : String(child)));
  return made;
};

memqos.unpacked = new Map();
memqos.blob = (name) => {
  if (!memqos.unpacked.has(name)) {
    const bytes = Uint8Array.from(atob(memqos.byId(`blob-${name}`).textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    memqos.unpacked.set(name, new Response(stream).json());
  }
  return memqos.unpacked.get(name);
};

// A claim may have the name of a property that every object has.
memqos.claimOf = (index, name) => Object.hasOwn(index.claims, name) ? index.claims[name] : undefined;

memqos.badge = (index, outcome, text, attributes = {}) =>
  memqos.element(attributes.href ? "a" : "span", { class: `badge b${outcome}`, ...attributes }, text || index.outcomes[outcome]);

// The filters, the matrix and the list of cases, which share one selection.
memqos.lists = (index) => {
  const { element, byId, badge } = memqos;
  const WORST = ["deviates", "machinery", "usage", "known", "not observable", "conforms"].map((name) => index.outcomes.indexOf(name));
  const AT_ONCE = 200;
  const form = byId("filters");
  const LONGEST = 400;
  let most = AT_ONCE;

  // Columns are systems, or releases of a system with several; a case may have no system.
  const systemOf = (one) => index.columns[one.column]?.name || "no system";
  const names = [...index.columns.map((column) => column.name), "no system"].filter((name, number, all) => all.indexOf(name) === number && index.cases.some((one) => systemOf(one) === name));

  const counted = index.outcomes.map((_, number) => index.cases.filter((one) => one.outcome === number).length);
  byId("by-outcome").append(...index.outcomes.map((name, number) => counted[number] === 0 ? "" : element("label", {},
    element("input", { type: "checkbox", name: "outcome", value: number, checked: true }), ` ${name} (${counted[number]})`)));
  const fill = (id, names) => byId(id).append(...names.map(([value, name]) => element("option", { value }, name)));
  fill("by-chapter", index.chapters.map((name) => [name, name]));
  fill("by-column", names.map((name) => [name, name]));
  fill("by-knob", [...new Set(index.cases.flatMap((one) => one.knobs))].sort().map((name) => [name, name]));

  const chosen = () => {
    const outcomes = new Set([...form.querySelectorAll("input[name=outcome]:checked")].map((box) => Number(box.value)));
    const chapter = byId("by-chapter").value, column = byId("by-column").value, knob = byId("by-knob").value;
    const words = byId("by-words").value.toLowerCase().split(/\s+/).filter(Boolean);
    return index.cases.filter((one) => outcomes.has(one.outcome) && (!chapter || one.chapter === chapter)
      && (!column || systemOf(one) === column) && (!knob || one.knobs.includes(knob))
      && words.every((word) => `${one.id} ${one.claim} ${one.reason} ${one.host}`.toLowerCase().includes(word)));
  };

  const showMatrix = (cases) => {
    const columns = names.filter((name) => cases.some((one) => systemOf(one) === name));
    const rows = new Map();
    for (const one of cases) {
      const name = one.claim || one.chapter;
      if (!rows.has(name)) rows.set(name, { chapter: one.chapter, cells: new Map() });
      const cells = rows.get(name).cells, column = systemOf(one);
      if (!cells.has(column)) cells.set(column, []);
      cells.get(column).push(one);
    }
    let before = null;
    const body = element("tbody");
    for (const [name, row] of rows) {
      if (row.chapter !== before) body.append(element("tr", { class: "chapter" }, element("th", { colspan: columns.length + 1, scope: "rowgroup" }, row.chapter)));
      before = row.chapter;
      const claim = memqos.claimOf(index, name);
      body.append(element("tr", {}, element("th", { scope: "row", class: "name" }, name, claim ? element("span", {}, claim.sentence) : null),
        columns.map((column) => element("td", {}, cell(name, column, row.cells.get(column))))));
    }
    byId("matrix-table").replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "claim"), columns.map((column) => element("th", { scope: "col" }, column)))), body);
  };

  const cell = (name, column, cases) => {
    if (!cases) return element("span", { class: "zero", "aria-label": "no case" }, "–");
    const worst = WORST.find((outcome) => cases.some((one) => one.outcome === outcome));
    const number = cases.filter((one) => one.outcome === worst).length;
    const text = `${index.outcomes[worst]}${cases.length === 1 ? "" : number === cases.length ? ` ${number}` : ` ${number} of ${cases.length}`}`;
    if (cases.length === 1) return badge(index, worst, text, { href: `#case-${cases[0].number}` });
    return badge(index, worst, text, {
      href: "#cases",
      onclick: () => { byId("by-column").value = column; byId("by-words").value = name; show(); },
    });
  };

  const shortened = (reason) => reason.length <= LONGEST ? reason : `${reason.slice(0, LONGEST).replace(/\s+\S*$/, "")} …`;

  const showCases = (cases) => {
    const order = (one) => WORST.indexOf(one.outcome);
    const sorted = [...cases].sort((one, other) => order(one) - order(other) || one.number - other.number);
    byId("cases-table").tBodies[0].replaceChildren(...sorted.slice(0, most).map((one) => element("tr", {},
      element("td", {}, badge(index, one.outcome)),
      element("td", {}, element("a", { href: `#case-${one.number}` }, one.id), one.reason ? element("span", { class: "why" }, shortened(one.reason)) : null),
      element("td", {}, one.findings.reduce((sum, count) => sum + count, 0)),
      element("td", {}, one.seconds.toFixed(1)))));
    byId("more").hidden = sorted.length <= most;
    byId("more").textContent = `Show ${Math.min(AT_ONCE, sorted.length - most)} more of ${sorted.length}`;
  };

  const show = () => {
    const cases = chosen();
    byId("shown").textContent = `${cases.length} of ${index.cases.length} cases`;
    showMatrix(cases);
    showCases(cases);
  };
  // A count in the overview links to its cases.
  for (const link of document.querySelectorAll("a[data-outcome]")) link.addEventListener("click", () => {
    form.reset();
    for (const box of form.querySelectorAll("input[name=outcome]")) box.checked = box.value === link.dataset.outcome;
    most = AT_ONCE;
    setTimeout(show);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { most = AT_ONCE; show(); });
  form.addEventListener("reset", () => setTimeout(() => { most = AT_ONCE; show(); }));
  byId("more").addEventListener("click", () => { most += AT_ONCE; show(); });
  return { show };
};

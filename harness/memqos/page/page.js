"use strict";
// The page: unpacks the data, and shows what the address and the filters select.
(async () => {
  const { element, byId, blob } = memqos;
  const root = document.documentElement;

  const button = byId("theme");
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const sayTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`);
    button.setAttribute("aria-pressed", String(root.dataset.theme === "dark"));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    sayTheme();
    memqos.charts.redraw();
  });
  sayTheme();

  let index;
  try {
    index = await blob("index");
  } catch (error) {
    const trouble = byId("trouble");
    trouble.textContent = `This browser cannot unpack the data of this report (${error}). Use a browser from 2023 or newer.`;
    trouble.hidden = false;
    return;
  }
  index.cases.forEach((one, number) => { one.number = number; });
  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  const lists = memqos.lists(index);
  const shown = memqos.caseView(index);

  const title = document.title;
  const follow = async () => {
    const asked = /^#case-(\d+)$/.exec(location.hash);
    const one = asked && index.cases[Number(asked[1])];
    if (one) {
      await shown(one);
      document.title = `${one.id} – memqos`;
    } else {
      delete document.body.dataset.view;
      document.title = title;
      if (location.hash.length > 1) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  lists.show();
  await follow();
  root.dataset.ready = "yes";
})();

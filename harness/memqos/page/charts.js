"use strict";
memqos.charts = (() => {
  return { section: () => "", draw: () => {}, redraw: () => {} };
})();

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("all");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const search = document.getElementById("q");
  const found = document.getElementById("found");
  const one = document.getElementById("one");
  const root = document.documentElement;

  /* An element with attributes and children; text stays text. */
  function make(name, attributes, ...children) {
    const space = name === "svg" || name === "path" || name === "text" || name === "circle"
      ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  /* --- light and dark --- */

  const theme = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : prefersDark;
  function nameTheme() { theme.textContent = isDark() ? "Light" : "Dark"; }
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  nameTheme();

  /* --- search --- */

  const texts = rows.map((row) => row.textContent.toLowerCase());
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => texts[place].includes(word));
      shown += !row.hidden;
    });
    found.textContent = words.length ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
  }
  search.addEventListener("input", () => { filter(); remember(); });

  /* --- sort --- */

  const heads = Array.from(table.tHead.rows[0].cells);
  let sorted = null;
  function valueOf(row, column, kind) {
    const cell = row.cells[column];
    if (kind === "number") return "v" in cell.dataset ? Number(cell.dataset.v) : null;
    const text = cell.textContent;
    return text.trim() !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  }
  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  function sort(column, down) {
    const kind = heads[column].dataset.kind;
    const keyed = rows.map((row) => [valueOf(row, column, kind), row]);
    keyed.sort(([a], [b]) => (a === null || b === null) ? compare(a, b) : (down ? -1 : 1) * compare(a, b));
    body.append(...keyed.map(([, row]) => row));
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    sorted = [column, down];
  }
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const again = sorted && sorted[0] === column;
      sort(column, again ? !sorted[1] : head.dataset.kind === "number");
      remember();
    });
  });

  /* --- one group --- */

  const POWERS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  function power(exponent) {
    return exponent === 0 ? "1" : "10" + Array.from(String(exponent), (c) => POWERS[c]).join("");
  }
  function chart(group) {
    const [width, height, left, right, top, bottom] = [440, 240, 48, 12, 10, 36];
    const logs = group.y.map((y) => Math.log10(Math.max(y, 1e-12)));
    const high = Math.ceil(Math.max(...logs) - 1e-9);
    const low = Math.min(Math.floor(Math.min(...logs) + 1e-9), high - 1);
    const longest = Math.max(group.x[group.x.length - 1], 1);
    const across = (x) => left + (width - left - right) * x / longest;
    const down = (log) => top + (height - top - bottom) * (high - log) / (high - low);
    const picture = make("svg", {
      class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `Convergence of ${group.name}: ${group.y.length} points`,
    });
    const step = Math.ceil((high - low) / 5);
    for (let log = high; log >= low; log -= step) {
      picture.append(make("path", { class: "grid", d: `M${left} ${down(log)}H${width - right}` }));
      picture.append(make("text", { class: "tick", x: left - 6, y: down(log) + 4, "text-anchor": "end" }, power(log)));
    }
    const base = height - bottom;
    picture.append(make("path", { class: "base", d: `M${left} ${base}H${width - right}` }));
    for (const x of new Set([0, Math.round(longest / 2), Math.round(longest)])) {
      picture.append(make("text", { class: "tick", x: across(x), y: base + 16, "text-anchor": "middle" }, String(x)));
    }
    picture.append(make("text", { class: "axis", x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "iteration"));
    const points = group.x.map((x, k) => `${across(x).toFixed(1)} ${down(logs[k]).toFixed(1)}`);
    const curve = make("path", { d: "M" + points.join("L") });
    const holder = document.createElementNS("http://www.w3.org/2000/svg", "g");
    holder.setAttribute("class", "curve series-1");
    holder.append(curve);
    group.x.forEach((x, k) => holder.append(make("circle", { cx: across(x), cy: down(logs[k]), r: 2.2 })));
    picture.append(holder);
    return picture;
  }
  function show(place) {
    const group = data[place];
    one.replaceChildren(make("h3", {}, group.name));
    const facts = make("dl", {});
    for (const [name, text] of [["status", group.status], ...(group.facts || []), ["options", group.options || "–"]]) {
      facts.append(make("dt", {}, name), make("dd", {}, text));
    }
    const left = make("div", {}, facts);
    const right = make("div", {});
    if (group.x) right.append(chart(group));
    if (group.coef) {
      const lines = make("tbody", {});
      for (const [name, ...cells] of group.coef) {
        const shown = cells.map((cell) => make("td", { class: "n" }, cell));
        lines.append(make("tr", {}, make("th", { scope: "row" }, name), ...shown));
      }
      right.append(make("table", {}, make("caption", {}, "largest coefficients, with 95% intervals"), lines));
    }
    one.append(make("div", { class: "sides" }, left, right));
    one.hidden = false;
  }
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-one]");
    if (!button) return;
    show(Number(button.dataset.one));
    opened = button.dataset.one;
    one.focus({ preventScroll: true });
    one.scrollIntoView({ block: "nearest" });
    remember();
  });
  let opened = null;

  /* --- what is shown is part of the address, so that it can be sent on: #q=...&sort=3-&one=0 --- */

  function remember() {
    const state = new URLSearchParams();
    if (search.value) state.set("q", search.value);
    if (sorted) state.set("sort", `${sorted[0]}${sorted[1] ? "-" : ""}`);
    if (opened !== null) state.set("one", opened);
    history.replaceState(null, "", "#" + state);
  }
  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    const sorting = /^(\d+)(-?)$/.exec(state.get("sort") || "");
    if (sorting && heads[sorting[1]] && heads[sorting[1]].dataset.kind) sort(Number(sorting[1]), sorting[2] === "-");
    if (state.get("q")) { search.value = state.get("q"); filter(); }
    if (data[state.get("one")]) { opened = state.get("one"); show(Number(opened)); }
  }
  recall();
  root.dataset.ready = "yes";
})();

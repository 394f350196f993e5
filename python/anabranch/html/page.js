"use strict";
// Shows values under the pointer, hides series, and filters points. Without it the page is complete, but still.
(() => {
  const tip = document.getElementById("tip");
  const rows = [...document.querySelectorAll("tr[data-point]")];
  const spots = [...document.querySelectorAll(".spot")];

  function show(text, event) {
    tip.textContent = text;
    tip.hidden = text === "";
    const right = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4);
    const below = event.clientY + 16 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(4, right)}px`;
    tip.style.top = `${below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 10}px`;
  }
  const hide = () => { tip.hidden = true; };

  // Equal values lie on each other: the tip has the texts of all.
  function textsAt(event) {
    const found = document.elementsFromPoint(event.clientX, event.clientY).filter((part) => part.matches(".spot"));
    return found.slice(0, 4).map((part) => part.getAttribute("aria-label")).join("\n\n");
  }

  for (const spot of spots) {
    const title = spot.querySelector("title");
    spot.setAttribute("aria-label", title.textContent);
    title.remove(); // the browser's own tip would cover ours
    spot.addEventListener("pointermove", (event) => { show(textsAt(event), event); event.stopPropagation(); });
    spot.addEventListener("pointerleave", hide);
    spot.addEventListener("click", () => {
      const row = document.getElementById(spot.dataset.points.split(" ")[0]);
      if (!row) return;
      rows.forEach((other) => other.classList.toggle("chosen", other.dataset.point === row.dataset.point));
      row.querySelectorAll("details").forEach((part) => { part.open = true; });
      row.classList.remove("hidden");
      row.scrollIntoView({ block: "center" });
    });
  }

  const read = (value) => Number(value.toPrecision(4)).toLocaleString("en");

  function valuesAt(panel, x) {
    const lines = panel.curves.map((curve) => {
      let low = 0;
      let high = curve.x.length - 1;
      if (high < 0 || x < curve.x[0]) return "";
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (curve.x[middle] <= x) low = middle; else high = middle - 1;
      }
      return `${curve.name || "value"}: ${read(curve.y[low])}`;
    });
    return [`${panel.label || "x"}: ${read(x)}`, ...lines.filter((line) => line !== "")].join("\n");
  }

  for (const svg of document.querySelectorAll("svg.figure")) {
    const panels = JSON.parse(svg.dataset.curves);
    if (panels.length === 0) continue;
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor hidden");
    svg.append(cursor);
    const leave = () => { hide(); cursor.classList.add("hidden"); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointermove", (event) => {
      const size = svg.getBoundingClientRect();
      const x = ((event.clientX - size.left) / size.width) * svg.viewBox.baseVal.width;
      const y = ((event.clientY - size.top) / size.height) * svg.viewBox.baseVal.height;
      const panel = panels.find(({ box }) => x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3]);
      if (!panel) { leave(); return; }
      const [left, top, right, bottom] = panel.box;
      const value = panel.x[0] + ((x - left) / (right - left)) * (panel.x[1] - panel.x[0]);
      for (const [key, place] of [["x1", x], ["x2", x], ["y1", top], ["y2", bottom]]) cursor.setAttribute(key, place);
      cursor.classList.remove("hidden");
      show(valuesAt(panel, value), event);
    });
  }

  for (const box of document.querySelectorAll("input[data-shows]")) {
    box.addEventListener("change", () => {
      const figure = box.closest("figure");
      figure.querySelectorAll(`.s${box.dataset.shows}`).forEach((part) => part.classList.toggle("hidden", !box.checked));
    });
  }

  const filter = document.getElementById("filter");
  function apply() {
    const wanted = [...filter.querySelectorAll("select")].filter((select) => select.value !== "");
    const kept = new Set();
    let shown = 0;
    for (const row of rows) {
      const values = JSON.parse(row.dataset.values);
      const fits = wanted.every((select) => values[select.dataset.key] === select.value);
      row.classList.toggle("hidden", !fits);
      if (fits) { kept.add(row.dataset.point); shown += 1; }
    }
    for (const spot of spots) {
      const fits = spot.dataset.points.split(" ").some((point) => kept.has(point));
      spot.classList.toggle("chosen", wanted.length > 0 && fits);
    }
    document.getElementById("count").textContent = `${shown} of ${rows.length} rows`;
  }
  if (filter) { filter.addEventListener("change", apply); apply(); }

  const outcomes = document.getElementById("outcomes");
  if (outcomes) {
    outcomes.addEventListener("change", () => {
      const outcome = outcomes.querySelector("select").value;
      for (const row of document.querySelectorAll("tr[data-outcome]")) {
        row.classList.toggle("hidden", outcome !== "" && row.dataset.outcome !== outcome);
      }
    });
  }
})();

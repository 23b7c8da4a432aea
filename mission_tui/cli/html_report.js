"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("chart-data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const digits = (v) => Number(v.toPrecision(4)).toString();
  const clock = (s) => s < 60 ? `${Math.round(s)} s` : s < 3600 ? `${(s / 60).toFixed(1)} min` : `${(s / 3600).toFixed(2)} h`;
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (low < high) { const mid = (low + high) >> 1; if (xs[mid] < x) low = mid + 1; else high = mid; }
    return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
  };
  for (const box of document.querySelectorAll("[data-chart]")) {
    const chart = facts[Number(box.dataset.chart)];
    const plot = box.querySelector(".plot");
    const readout = box.parentElement.querySelector(".readout");
    const [from, to] = chart.x;
    const places = chart.curves.reduce((most, it) => it.x.length > most.length ? it.x : most, []);
    if (!places.length) continue;
    const cross = document.createElementNS(NS, "line");
    for (const [name, value] of [["y1", "0"], ["y2", "100%"], ["class", "cross"], ["visibility", "hidden"]]) cross.setAttribute(name, value);
    plot.append(cross);
    let at = -1;
    const show = (place) => {
      at = place;
      const x = places[at], across = `${100 * (x - from) / (to - from)}%`;
      cross.setAttribute("x1", across); cross.setAttribute("x2", across); cross.setAttribute("visibility", "visible");
      const medians = chart.curves.filter((it) => it.n.startsWith("median "));
      const said = (chart.curves.length > 8 && medians.length ? medians : chart.curves).slice(0, 24).map((it) => {
        if (x < it.x[0] && at > 0 || x > it.x[it.x.length - 1]) return null;
        const k = nearest(it.x, x);
        const span = it.l && it.l[k] !== it.h[k] ? ` (${digits(it.l[k])} to ${digits(it.h[k])})` : "";
        return `${it.n} ${digits(it.y[k])}${span}`;
      }).filter(Boolean);
      const reach = (to - from) / 100;
      const marks = chart.marks.filter((it) => Math.abs(it.x - x) < reach).map((it) => it.t);
      readout.textContent = [`${chart.by === "time" ? clock(x) : Math.round(x).toLocaleString("en") + " timesteps"}:`, said.join("   "), ...marks].join(" ");
    };
    const hide = () => { at = -1; cross.setAttribute("visibility", "hidden"); readout.textContent = ""; };
    box.addEventListener("pointermove", (event) => {
      const edge = plot.querySelector(".axis-line").getBoundingClientRect();
      const x = from + (event.clientX - edge.left) / edge.width * (to - from);
      show(nearest(places, Math.min(to, Math.max(from, x))));
    });
    box.addEventListener("pointerleave", hide);
    box.addEventListener("blur", hide);
    box.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -places.length, End: places.length }[event.key];
      if (event.key === "Escape") hide();
      if (step === undefined) return;
      event.preventDefault();
      show(Math.min(places.length - 1, Math.max(0, (at < 0 ? (step < 0 ? places.length : -1) : at) + step)));
    });
  }
})();

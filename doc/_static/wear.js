// The picture of "Why a holdout wears out": what the best of many equal candidates reports.
// The best of k scores of sd s around p is about p + s E[max of k standard normals], computed here.
(function () {
  "use strict";
  function expectedMax(k) {
    // E max = ∫ (1 − Φ^k) − ∫ Φ^k; the normal distribution by Abramowitz and Stegun 7.1.26.
    const phi = (x) => {
      const t = 1 / (1 + 0.3275911 * Math.abs(x) / Math.SQRT2);
      const y = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t +
        0.254829592) * t * Math.exp(-x * x / 2);
      return x < 0 ? (1 - y) / 2 : (1 + y) / 2;
    };
    let sum = 0;
    const step = 0.01;
    for (let x = -8; x < 8; x += step) {
      const p = Math.pow(phi(x), k);
      sum += step * (x < 0 ? -p : 1 - p);
    }
    return sum;
  }
  function draw(box) {
    const n = Math.round(Math.pow(10, +box.querySelector("[name=n]").value));
    const k = Math.round(Math.pow(10, +box.querySelector("[name=k]").value));
    const p = +box.querySelector("[name=p]").value;
    box.querySelector("[data-of=n]").value = n.toLocaleString("en");
    box.querySelector("[data-of=k]").value = k.toLocaleString("en");
    box.querySelector("[data-of=p]").value = p.toFixed(2);
    const sd = Math.sqrt(p * (1 - p) / n);
    const left = 60, right = 620, top = 25, bottom = 235;
    const low = p - 0.02, high = Math.min(1, p + Math.max(0.05, 4.6 * sd));
    const x = (j) => left + (right - left) * Math.log10(j) / 4;
    const y = (v) => bottom - (bottom - top) * (v - low) / (high - low);
    let line = "", dots = "";
    for (let e = 0; e <= 40; e++) {
      const j = Math.pow(10, e / 10);
      const v = Math.min(1, p + sd * expectedMax(j));
      line += (e ? "L" : "M") + x(j).toFixed(1) + "," + y(v).toFixed(1);
    }
    const best = Math.min(1, p + sd * expectedMax(k));
    dots = `<circle class="naive" cx="${x(k)}" cy="${y(best)}" r="6"/>` +
      `<circle class="fresh" cx="${x(k)}" cy="${y(p)}" r="6"/>`;
    let ticks = "";
    for (let e = 0; e <= 4; e++) {
      const at = x(Math.pow(10, e));
      ticks += `<line class="axis" x1="${at}" y1="${bottom}" x2="${at}" y2="${bottom + 5}"/>` +
        `<text class="muted" x="${at}" y="${bottom + 20}" text-anchor="middle">` +
        `${Math.pow(10, e).toLocaleString("en")}</text>`;
    }
    box.querySelector("svg").innerHTML =
      `<line class="axis" x1="${left}" y1="${bottom}" x2="${right}" y2="${bottom}"/>${ticks}` +
      `<text class="muted" x="${(left + right) / 2}" y="${bottom + 40}" text-anchor="middle">` +
      `candidates looked at on the same holdout</text>` +
      `<line class="truth" x1="${left}" y1="${y(p)}" x2="${right}" y2="${y(p)}"/>` +
      `<text x="${left}" y="${y(p) + 17}">true score of every candidate: ${p.toFixed(2)}</text>` +
      `<path class="naive" d="${line}" style="fill:none;stroke-width:2.5"/>${dots}` +
      `<text x="${Math.max(x(k) - 8, left + 110)}" y="${y(best) - 12}" text-anchor="end">reported: ${best.toFixed(3)}</text>`;
    box.querySelector(".says").textContent =
      `With ${n.toLocaleString("en")} holdout records the best of ${k.toLocaleString("en")} equally ` +
      `good candidates reports ${best.toFixed(3)}; on fresh data it scores ${p.toFixed(2)}. ` +
      `The difference of ${(100 * (best - p)).toFixed(1)} points is luck that was selected.`;
  }
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".wear").forEach((box) => {
      box.querySelectorAll("input").forEach((i) => i.addEventListener("input", () => draw(box)));
      draw(box);
    });
  });
})();

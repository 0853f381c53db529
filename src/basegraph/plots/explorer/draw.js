// Drawing: SVG made by hand, a few large elements instead of many small ones.

const SVG = "http://www.w3.org/2000/svg";

const ORIGIN_COLORS = {
  "Alg. 1 line 9": "var(--edge)",
  "Alg. 2 line 11": "#e7798f",
  "Alg. 2 line 15": "#4a7fc1",
  "Alg. 2 line 20": "#b09000",
  "Alg. 2 line 25": "#35a835",
  "Alg. 2 line 27": "#4db1e0",
  "Alg. 3 line 10": "var(--ink)",
  "euclid mirror": "#8f63b0",
  "": "var(--edge)",
};
const CURVES = ["#0b7aa8", "#d1495b", "#2e9b57", "#b97a00", "#8a63c4", "#7d8aa3", "#b8479c", "#6b6b00"];

function svg(name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function place(i, n, radius = 100) {
  const angle = (2 * Math.PI * i) / n;
  return [radius * Math.sin(angle), -radius * Math.cos(angle)];
}

// A value's color: blue below, orange above the range's middle; equal values look equal.
function valueColor(value, range) {
  const t = Math.max(-1, Math.min(1, Math.round((1000 * value) / range) / 1000));
  const hue = t < 0 ? 212 : 28;
  return `hsl(${hue} ${25 + 60 * Math.abs(t)}% ${72 - 27 * Math.abs(t)}%)`;
}

function drawRound(host, t, step, values, range, selected) {
  const { n } = t;
  const dot = Math.max(1.6, Math.min(7.5, 230 / n));
  const root = svg("svg", { viewBox: "-122 -122 244 244", role: "img" });
  root.append(svg("title", {}, `${t.spec} on ${n} nodes, round ${step}`));
  const arcs = t.round(step);
  const heard = new Set();
  const lines = new Map();
  const chosen = [];
  for (const [i, j, a, b, origin] of arcs) {
    if (i === selected || j === selected) heard.add(i === selected ? j : i);
    if (t.symmetric && i > j) continue;
    const [x0, y0] = place(j, n);
    const [x1, y1] = place(i, n);
    // Longer chords bend towards the centre, neighbors on the circle and diameters do not.
    const chord = Math.hypot(x1 - x0, y1 - y0) / 200;
    const pull = Math.min(0.2, 2 * chord) * (1 - chord);
    const [cx, cy] = [((x0 + x1) / 2) * (1 - pull), ((y0 + y1) / 2) * (1 - pull)];
    let path = `M${x0.toFixed(1)} ${y0.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`;
    if (!t.symmetric) path += arrowHead(cx, cy, x1, y1, dot);
    if (i === selected || j === selected) chosen.push(path);
    lines.set(origin, (lines.get(origin) || "") + path);
  }
  for (const [origin, path] of lines) {
    const style = `stroke:${ORIGIN_COLORS[origin]}`;
    root.append(svg("path", { d: path, class: "edge", style, "data-origin": origin }));
  }
  if (chosen.length) root.append(svg("path", { d: chosen.join(""), class: "edge chosen" }));
  const distinct = new Set(arcs.map(([, , a, b]) => `${a}/${b}`));
  const edges = arcs.length / (t.symmetric ? 2 : 1);
  if (edges <= 16 && n <= 32) labelEdges(root, t, arcs, distinct.size);
  for (let i = 0; i < n; i++) {
    const [x, y] = place(i, n);
    const classes = ["node", i === selected && "selected", heard.has(i) && "heard"];
    const node = svg("circle", {
      cx: x.toFixed(2),
      cy: y.toFixed(2),
      r: dot,
      class: classes.filter(Boolean).join(" "),
      "data-node": i,
      fill: valueColor(values[i], range),
    });
    node.append(svg("title", {}, `node ${i}: ${values[i].toPrecision(4)}`));
    root.append(node);
    if (n <= 40) {
      const [tx, ty] = place(i, n, 113);
      root.append(svg("text", { x: tx, y: ty, class: "name" }, i));
    }
  }
  host.replaceChildren(root);
}

function arrowHead(cx, cy, nodeX, nodeY, dot) {
  const length = Math.hypot(nodeX - cx, nodeY - cy) || 1;
  const [ux, uy] = [(nodeX - cx) / length, (nodeY - cy) / length];
  const [x, y] = [nodeX - dot * ux, nodeY - dot * uy];
  const corner = (side) =>
    `${(x - 5 * ux + side * 2.4 * uy).toFixed(1)} ${(y - 5 * uy - side * 2.4 * ux).toFixed(1)}`;
  return `M${corner(1)}L${x.toFixed(1)} ${y.toFixed(1)}L${corner(-1)}`;
}

function labelEdges(root, t, arcs, distinct) {
  for (const [i, j, a, b] of arcs) {
    if (t.symmetric && i > j) continue;
    if (distinct === 1 && arcs.length > 12) return;
    const [x0, y0] = place(j, t.n);
    const [x1, y1] = place(i, t.n);
    const along = Math.hypot(x1 - x0, y1 - y0) > 130 ? 0.34 : 0.5;
    const inward = Math.hypot(x1 - x0, y1 - y0) < 60 ? 0.87 : 0.94;
    const at = [x0 + along * (x1 - x0), y0 + along * (y1 - y0)].map((v) => v * inward);
    root.append(svg("text", { x: at[0], y: at[1], class: "weight" }, `${a}/${b}`));
  }
}

// The error curves, a logarithmic scale from 1 down to 1e-32; `now` marks the current round.
function drawErrors(host, curves, now, steps) {
  const [width, height, left, bottom] = [420, 300, 46, 34];
  const floor = -32;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  root.append(svg("title", {}, "consensus error by round"));
  const x = (step) => left + ((width - left - 10) * step) / Math.max(1, steps);
  const y = (error) => {
    const log = Math.max(floor, Math.min(1, Math.log10(Math.max(error, 1e-300))));
    return 10 + ((height - bottom - 10) * (1 - log)) / (1 - floor);
  };
  for (let power = 0; power >= floor; power -= 8) {
    const level = y(10 ** power);
    root.append(svg("path", { d: `M${left} ${level}H${width - 10}`, class: "grid" }));
    root.append(svg("text", { x: left - 6, y: level, class: "tick y" }, `1e${power}`));
  }
  const stride = Math.ceil(steps / 8) || 1;
  for (let step = 0; step <= steps; step += stride) {
    root.append(svg("text", { x: x(step), y: height - bottom + 16, class: "tick" }, step));
  }
  root.append(svg("text", { x: (left + width) / 2, y: height - 4, class: "tick" }, "round"));
  root.append(svg("path", { d: `M${x(now)} 10V${height - bottom}`, class: "now" }));
  curves.forEach(({ errors }, index) => {
    const reached = errors.findIndex((error) => error <= 1e-28 * errors[0]);
    const end = reached < 0 ? errors.length - 1 : reached;
    const shown = errors.slice(0, end + 1).map((error, i) => (i === reached ? 0 : error));
    const path = shown.map((error, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(error).toFixed(1)}`);
    const style = `stroke:${CURVES[index % CURVES.length]}`;
    root.append(svg("path", { d: path.join(""), class: "curve", style }));
    if (reached >= 0) {
      const fill = CURVES[index % CURVES.length];
      root.append(svg("circle", { cx: x(reached), cy: y(0), r: 4.5, fill, class: "exact" }));
    }
    if (now <= end) {
      root.append(svg("circle", { cx: x(now), cy: y(shown[now]), r: 3, style, class: "point" }));
    }
  });
  host.replaceChildren(root);
}

// A round: nodes on a circle in the colors of their values, edges in the colors of their origins.

const ORIGIN_COLORS = {
  "Alg. 1 line 9": "var(--edge)",
  "Alg. 2 line 11": "#e7798f",
  "Alg. 2 line 15": "#4a7fc1",
  "Alg. 2 line 20": "#b09000",
  "Alg. 2 line 25": "#35a835",
  "Alg. 2 line 27": "#4db1e0",
  "Alg. 3 line 10": "var(--ink)",
  "euclid mirror": "#8f63b0",
  "block-mix middle": "#d1495b",
  "block-mix idle nodes": "#c98a66",
  "block-merge": "#2a9d8f",
  "": "var(--edge)",
};

// A value's color: blue below the average of all, orange above; equal values look equal.
function valueColor(value, { mean, range }) {
  const t = Math.max(-1, Math.min(1, Math.round((1000 * (value - mean)) / (range || 1)) / 1000));
  const hue = t < 0 ? 212 : 28;
  return `hsl(${hue} ${25 + 60 * Math.abs(t)}% ${72 - 27 * Math.abs(t)}%)`;
}

// What colors mean: the average that all nodes are to reach, and the farthest start value from it.
function scaleOfValues(x0) {
  const mean = x0.reduce((a, b) => a + b, 0) / x0.length;
  return { mean, range: Math.max(...x0.map((value) => Math.abs(value - mean))) };
}

const dotSize = (n) => Math.max(1.5, Math.min(7.5, 230 / n));

// Draws round `step` into the host; returns { edges, left } that were drawn and left out. Nodes that
// are there already only change their color, which style.css may animate.
function drawRound(host, t, step, values, scale, selected) {
  const { n } = t;
  const dot = dotSize(n);
  const arcs = t.round(step);
  const drawn = drawnEdges(t, arcs, selected);
  let root = host.querySelector("svg");
  if (!root || root.dataset.nodes !== String(n)) {
    root = svg("svg", { viewBox: "-124 -124 248 248", role: "img", "data-nodes": n });
    root.append(svg("title"), svg("g", { class: "edges" }), svg("g", { class: "weights" }), nodesOf(n, dot));
    host.replaceChildren(root);
  }
  root.querySelector("title").textContent = `${t.spec} on ${n} nodes, round ${step}`;
  root.querySelector(".edges").replaceChildren(...edgeElements(t, drawn.edges, selected, dot));
  root.querySelector(".weights").replaceChildren(
    ...weightLabels(t, drawn.edges, dot).map(({ text, x, y }) =>
      svg("text", { x: x.toFixed(1), y: y.toFixed(1), class: "weight" }, text),
    ),
  );
  const heard = new Set();
  for (const [i, j] of arcs) if (i === selected || j === selected) heard.add(i === selected ? j : i);
  root.querySelectorAll(".node").forEach((node, i) => {
    node.setAttribute("fill", valueColor(values[i], scale));
    node.classList.toggle("selected", i === selected);
    node.classList.toggle("heard", heard.has(i));
    node.firstChild.textContent = `node ${i}: ${values[i].toPrecision(4)}`;
  });
  return drawn;
}

function nodesOf(n, dot) {
  const group = svg("g", { class: n > BUNDLED ? "nodes crowded" : "nodes" });
  for (let i = 0; i < n; i++) {
    const [x, y] = place(i, n);
    const node = svg("circle", { cx: x.toFixed(2), cy: y.toFixed(2), r: dot, class: "node", "data-node": i });
    node.append(svg("title"));
    group.append(node);
  }
  const stride = n <= 40 ? 1 : Math.ceil(n / 20 / 5) * 5;
  for (let i = 0; i < n; i += stride) {
    if (i && n - i < stride / 2) continue;
    const [x, y] = place(i, n, (n > 100 ? 109 : 106) + dot);
    group.append(svg("text", { x: x.toFixed(1), y: y.toFixed(1), class: "name" }, i));
  }
  return group;
}

// One path for all edges of an origin, and one for those of the selected node.
function edgeElements(t, edges, selected, dot) {
  const lines = new Map();
  const chosen = [];
  for (const [i, j, , , origin] of edges) {
    const path = edgePath(i, j, t.n, !t.symmetric, dot);
    if (i === selected || j === selected) chosen.push(path);
    lines.set(origin, (lines.get(origin) || "") + path);
  }
  const many = edges.length > 150 ? " many" : t.n > BUNDLED ? " thin" : "";
  const elements = [...lines].map(([origin, path]) => {
    const style = `stroke:${ORIGIN_COLORS[origin]}`;
    return svg("path", { d: path, class: `edge${many}`, style, "data-origin": origin });
  });
  const crowd = chosen.length > 20 ? " many" : t.n > BUNDLED ? " thin" : "";
  if (chosen.length) elements.push(svg("path", { d: chosen.join(""), class: `edge chosen${crowd}` }));
  return elements;
}

// The color scale, with the average that all nodes are to reach in its middle.
function drawScale(host, { mean, range }) {
  const at = (share) => valueColor(mean + share * range, { mean, range });
  const stops = Array.from({ length: 21 }, (_, k) => at((k - 10) / 10));
  const style = `background:linear-gradient(to right,${stops.join(",")})`;
  const bar = html("div", { class: "bar", style });
  const number = (value) => value.toFixed(2).replace("-", "−");
  host.replaceChildren(
    bar,
    html("span", {}, number(mean - range)),
    html("b", {}, `average of all ${number(mean)}`),
    html("span", {}, number(mean + range)),
  );
}

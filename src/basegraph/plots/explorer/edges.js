// The edges of a round as curves. Nodes are on a circle of radius 100; from BUNDLED nodes on, edges
// between the same two parts of the circle share a trunk, and of very many only some are drawn.

const BUNDLED = 60;
const SECTORS = 24;
const MOST_EDGES = 600;

function place(i, n, radius = 100) {
  const angle = (2 * Math.PI * i) / n;
  return [radius * Math.sin(angle), -radius * Math.cos(angle)];
}

const point = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

// The control points of an edge's curve: one, or two where it is part of a bundle.
function controls(i, j, n) {
  const [[x0, y0], [x1, y1]] = [place(j, n), place(i, n)];
  const sectors = [j, i].map((node) => Math.floor((node * SECTORS) / n));
  const apart = Math.abs(sectors[0] - sectors[1]);
  if (n > BUNDLED && Math.min(apart, SECTORS - apart) > 1) {
    const depth = 45 + 4 * Math.min(apart, SECTORS - apart);
    return sectors.map((sector) => place(sector + 0.5, SECTORS, 130 - depth));
  }
  // Longer chords bend towards the centre; those of neighbors bow so that nodes do not hide them.
  const chord = Math.hypot(x1 - x0, y1 - y0) / 200;
  const pull = chord < 0.1 ? 0.12 : Math.min(0.2, 2 * chord) * (1 - chord);
  return [[((x0 + x1) / 2) * (1 - pull), ((y0 + y1) / 2) * (1 - pull)]];
}

function edgePath(i, j, n, directed, dot) {
  const between = controls(i, j, n);
  const [from, to] = [place(j, n), place(i, n)];
  const curve = `M${point(from)}${between.length === 1 ? "Q" : "C"}${[...between, to].map(point).join(" ")}`;
  return directed ? curve + arrowHead(between[between.length - 1], to, dot) : curve;
}

function arrowHead([cx, cy], [nodeX, nodeY], dot) {
  const length = Math.hypot(nodeX - cx, nodeY - cy) || 1;
  const [ux, uy] = [(nodeX - cx) / length, (nodeY - cy) / length];
  const [x, y] = [nodeX - dot * ux, nodeY - dot * uy];
  const size = Math.min(5, 2 + dot);
  const corner = (side) =>
    point([x - size * ux + side * 0.48 * size * uy, y - size * uy - side * 0.48 * size * ux]);
  return `M${corner(1)}L${point([x, y])}L${corner(-1)}`;
}

// A point of an edge's curve, t from 0 (the sender) to 1.
function alongEdge(i, j, n, t) {
  let points = [place(j, n), ...controls(i, j, n), place(i, n)];
  while (points.length > 1) {
    points = points.slice(1).map((next, k) => next.map((to, axis) => points[k][axis] * (1 - t) + to * t));
  }
  return points[0];
}

// The edges of a round, once each: arcs, or pairs where both directions weigh the same.
function edgesOf(t, arcs) {
  return t.symmetric ? arcs.filter(([i, j]) => i < j) : arcs;
}

// { edges, left }: those to draw, spread evenly over all of them, and how many are left out. All
// edges of the selected node are drawn.
function drawnEdges(t, arcs, selected) {
  const edges = edgesOf(t, arcs);
  if (edges.length <= MOST_EDGES) return { edges, left: 0 };
  const stride = edges.length / MOST_EDGES;
  const kept = new Set(Array.from({ length: MOST_EDGES }, (_, k) => Math.floor(k * stride)));
  const shown = edges.filter(([i, j], k) => kept.has(k) || i === selected || j === selected);
  return { edges: shown, left: edges.length - shown.length };
}

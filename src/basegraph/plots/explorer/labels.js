// Weights on edges, where they fit: no label lies on a node, on another label or outside.

const ALONG = [0.5, 0.4, 0.6, 0.32, 0.68, 0.25, 0.75];
const MOST_LABELED = { nodes: 32, edges: 40 };
const LETTER = 3.6;
const LINE = 7.5;

// Half the width and height of a label.
function labelSize(text) {
  return [(text.length * LETTER) / 2 + 0.8, LINE / 2];
}

function overlaps(a, b) {
  return Math.abs(a.x - b.x) < a.w + b.w && Math.abs(a.y - b.y) < a.h + b.h;
}

// [{ text, x, y }] for as many edges as have room; all equal weights need no labels.
function weightLabels(t, edges, dot) {
  const weights = new Set(edges.map(([, , a, b]) => `${a}/${b}`));
  if (t.n > MOST_LABELED.nodes || edges.length > MOST_LABELED.edges) return [];
  if (weights.size === 1 && edges.length > 6) return [];
  const taken = Array.from({ length: t.n }, (_, i) => {
    const [x, y] = place(i, t.n);
    return { x, y, w: dot, h: dot };
  });
  const labels = [];
  for (const [i, j, a, b] of edges) {
    const text = `${a}/${b}`;
    const [w, h] = labelSize(text);
    const free = ALONG.map((share) => {
      const [x, y] = alongEdge(i, j, t.n, share);
      return { text, x, y, w, h };
    }).find((box) => !taken.some((other) => overlaps(box, other)));
    if (!free) continue;
    taken.push(free);
    labels.push(free);
  }
  return labels;
}

// The weights of a round in words: "14 edges, weights 1/2 on 12, 2/3 on 2".
function weightsText(edges) {
  if (!edges.length) return "nobody talks";
  const counts = new Map();
  for (const [, , a, b] of edges) counts.set(`${a}/${b}`, (counts.get(`${a}/${b}`) || 0) + 1);
  const ranked = [...counts].sort((a, b) => b[1] - a[1]);
  const edgesWord = edges.length === 1 ? "one edge" : `${edges.length} edges`;
  if (ranked.length === 1) return `${edgesWord} of weight ${ranked[0][0]}`;
  const words = ranked.slice(0, 4).map(([weight, count]) => `${weight} on ${count === 1 ? "one" : count}`);
  if (ranked.length > 4) words.push(`${ranked.length - 4} others`);
  return `${edgesWord}, weights ${words.join(", ")}`;
}

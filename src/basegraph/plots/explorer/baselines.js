// What the paper compares with, and ceca.

function ring(n) {
  const shifts = [...new Set([1 % n, (n - 1) % n])].filter((u) => u);
  return sequence([circulant(n, shifts.map((u) => [u, 1, shifts.length + 1]))]);
}

function torus(n) {
  let rows = Math.floor(Math.sqrt(n));
  while (n % rows) rows--;
  const columns = n / rows;
  const around = (size) => [...new Set([1 % size, (size - 1) % size])].filter((u) => u);
  const arcs = [];
  for (let i = 0; i < n; i++) {
    const [row, column] = [Math.floor(i / columns), i % columns];
    for (const u of around(columns)) arcs.push(arc(i, row * columns + ((column + u) % columns), 1, 5));
    for (const u of around(rows)) arcs.push(arc(i, ((row + u) % rows) * columns + column, 1, 5));
  }
  return sequence([arcs]);
}

function complete(n) {
  return sequence([circulant(n, Array.from({ length: n - 1 }, (_, u) => [u + 1, 1, n]))]);
}

function exponential(n) {
  const reach = ceilLog2(n);
  const shifts = Array.from({ length: reach }, (_, j) => [2 ** j, 1, reach + 1]);
  return sequence([circulant(n, shifts)], n <= 2);
}

function onePeerExponential(n) {
  const rounds = Array.from({ length: ceilLog2(n) }, (_, j) => circulant(n, [[2 ** j, 1, 2]]));
  return sequence(rounds.length ? rounds : [[]], n <= 2);
}

function onePeerHypercube(n) {
  if (2 ** ceilLog2(n) !== n) throw new Error("n must be a power of two");
  return hyperHypercube(n, 1, "");
}

// Two vectors per node, x and y: everybody hears x or y (`sent`) of i - u; an arc has the weight in
// x, `second` that in y.
function ceca(n) {
  const rounds = [];
  const second = [];
  let m = 0;
  for (let below = ceilLog2(n) - 1; below >= 0; below--) {
    const digit = Math.floor((n - 1) / 2 ** below) % 2;
    rounds.push(circulant(n, [digit ? [m + 1, 1, 2] : [m, m, 2 * m + 1]]));
    second.push(digit ? { sent: "x", weight: [m + 1, 2 * m + 1] } : { sent: "y", weight: [1, 2] });
    m = 2 * m + digit;
  }
  if (n === 1) rounds.push([]), second.push({ sent: "x", weight: [0, 1] });
  return { ...sequence(rounds, false), second: (step) => second[step % second.length] };
}

function equistaticShifts(n, degree, seed) {
  const counts = new Map();
  if (n > 1) {
    for (const u of drawIntegers(1, n, degree, seed, 0)) counts.set(u, (counts.get(u) || 0) + 1);
  }
  return counts;
}

function dEquistatic(n, degree, seed) {
  const counts = equistaticShifts(n, degree, seed);
  const shifts = [...counts].map(([u, times]) => [u, times * (n - 1), degree * n]);
  const symmetric = [...counts].every(([u, times]) => counts.get(n - u) === times);
  return sequence([circulant(n, shifts)], symmetric);
}

function uEquistatic(n, degree, seed) {
  const counts = equistaticShifts(n, degree, seed);
  const both = new Set([...counts.keys()].flatMap((u) => [u, n - u]));
  const shifts = [...both].map((u) => [
    u,
    ((counts.get(u) || 0) + (counts.get(n - u) || 0)) * (n - 1),
    2 * degree * n,
  ]);
  return sequence([circulant(n, shifts)]);
}

function onePeerDEquidyn(n, seed) {
  const round = (step) =>
    n === 1 ? [] : circulant(n, [[drawIntegers(1, n, 1, seed, step)[0], n - 1, 2 * n]]);
  return { period: null, symmetric: n <= 2, round };
}

function onePeerUEquidyn(n, seed) {
  const round = (step) => {
    if (n === 1) return [];
    const [u] = drawIntegers(1, n, 1, seed, step);
    const [s] = drawIntegers(0, n, 1, seed, step, 1);
    const peer = new Map();
    for (let y = 0; y < n; y++) {
      const i = (s + y) % n;
      const j = (i + u) % n;
      if (!peer.has(i) && !peer.has(j)) peer.set(i, j).set(j, i);
    }
    return [...peer].map(([i, j]) => arc(i, j, n - 1, 2 * n));
  };
  return { period: null, symmetric: true, round };
}

// The topologies of the catalogue (but those in LEFT_OUT of the package), computed in the page. A
// round is a list of arcs [receiver, sender, numerator, denominator, origin]; the library's tests
// compare it arc for arc.

function greatestDivisor(a, b) {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

function arc(to, from, numerator, denominator, origin = "") {
  const common = greatestDivisor(numerator, denominator);
  return [to, from, numerator / common, denominator / common, origin];
}

// ---- integers ----------------------------------------------------------------------------------

function ceilLog2(n) {
  let power = 0;
  while (2 ** power < n) power++;
  return power;
}

function smoothPart(n, largest) {
  let rest = n;
  for (let factor = 2; factor <= Math.min(largest, n); factor++) {
    while (rest % factor === 0) rest /= factor;
  }
  return n / rest;
}

// n as a product of the fewest factors from 2..largest, then the smallest sum, ascending.
function fewestFactors(n, largest) {
  const best = new Map([[1, []]]);
  const total = (factors) => factors.reduce((a, b) => a + b, 0);
  const better = (a, b) => {
    if (!b || a.length !== b.length) return !b || a.length < b.length;
    if (total(a) !== total(b)) return total(a) < total(b);
    const differs = a.findIndex((value, i) => value !== b[i]);
    return differs >= 0 && a[differs] < b[differs];
  };
  for (let whole = 2; whole <= n; whole++) {
    if (n % whole) continue;
    for (let factor = 2; factor <= Math.min(largest, whole); factor++) {
      const before = whole % factor === 0 && best.get(whole / factor);
      if (!before) continue;
      const option = [...before, factor].sort((a, b) => a - b);
      if (better(option, best.get(whole))) best.set(whole, option);
    }
  }
  return best.get(n);
}

// ---- building blocks ---------------------------------------------------------------------------

// Nodes start..stop-1 whose offsets differ in one digit only average completely.
function cliques(start, stop, stride, size, origin) {
  const arcs = [];
  for (let i = start; i < stop; i++) {
    const digit = Math.floor((i - start) / stride) % size;
    for (let other = 0; other < size; other++) {
      if (other !== digit) arcs.push(arc(i, i + (other - digit) * stride, 1, size, origin));
    }
  }
  return arcs;
}

// Every node i hears i - u (mod n) with weight a/b, for each [u, a, b].
function circulant(n, shifts) {
  const arcs = [];
  for (let i = 0; i < n; i++) {
    for (const [u, a, b] of shifts) arcs.push(arc(i, (((i - u) % n) + n) % n, a, b));
  }
  return arcs;
}

function sequence(rounds, symmetric = true) {
  return { period: rounds.length, symmetric, round: (step) => rounds[step % rounds.length] };
}

// ---- the paper's constructions -----------------------------------------------------------------

function hyperHypercube(n, k, origin = "Alg. 1 line 9") {
  if (smoothPart(n, k + 1) !== n) throw new Error(`n must have no prime factor above ${k + 1}`);
  let stride = 1;
  const rounds = fewestFactors(n, k + 1).map((size) => {
    const arcs = cliques(0, n, stride, size, origin);
    stride *= size;
    return arcs;
  });
  return sequence(rounds.length ? rounds : [[]]);
}

function splitByDigits(n, base) {
  const parts = [];
  let start = 0;
  for (let power = Math.floor(Math.log2(n)); power >= 0; power--) {
    const block = base ** power;
    const count = Math.floor(n / block) % base;
    if (!count) continue;
    const stop = start + count * block;
    parts.push({ start, stop, count, power, block, factors: fewestFactors(count * block, base) });
    start = stop;
  }
  return parts;
}

function simpleBase(n, k) {
  const base = k + 1;
  if (smoothPart(n, base) === n) return hyperHypercube(n, k);
  const parts = splitByDigits(n, base);
  const last = parts.length - 1;
  const warmUp = parts[0].factors.length;
  const rounds = [];
  for (let phase = 0; phase < warmUp + 1 + parts[0].power; phase++) {
    const bridge = phase - warmUp;
    rounds.push(
      parts.flatMap((part, index) => {
        if (bridge < 0) return warmUpRound(part, phase);
        if (bridge < index) return give(parts, bridge, part);
        if (bridge === index && index !== last) return take(parts, bridge, base);
        if (!part.power) return cliques(part.start, part.stop, 1, part.count, "Alg. 2 line 27");
        const done = bridge - index - (index === last ? 0 : 1);
        const stride = base ** (done % part.power);
        return cliques(part.start, part.stop, stride, base, "Alg. 2 line 25");
      }),
    );
  }
  return sequence(rounds);
}

function warmUpRound(part, phase) {
  if (!part.factors.length) return [];
  const turn = phase % part.factors.length;
  const stride = part.factors.slice(0, turn).reduce((a, b) => a * b, 1);
  return cliques(part.start, part.stop, stride, part.factors[turn], "Alg. 2 line 11");
}

// Lines 13-15: the nodes after V_j queue up, the last part first; the one at place r meets node r
// of each block of V_j.
function give(parts, j, part) {
  const n = parts[parts.length - 1].stop;
  const target = parts[j];
  const arcs = [];
  for (let i = part.start; i < part.stop; i++) {
    const place = i - part.start + n - part.stop;
    for (let block = 0; block < target.count; block++) {
      const sender = target.start + block * target.block + place;
      arcs.push(arc(i, sender, target.block, n - target.start, "Alg. 2 line 15"));
    }
  }
  return arcs;
}

function take(parts, j, base) {
  const n = parts[parts.length - 1].stop;
  const part = parts[j];
  const queue = parts.slice(j + 1).reverse().flatMap((after) =>
    Array.from({ length: after.stop - after.start }, (_, offset) => after.start + offset),
  );
  const alone = [];
  const peer = new Map();
  for (let i = part.start; i < part.stop; i++) {
    const place = (i - part.start) % part.block;
    if (place < queue.length) peer.set(i, queue[place]);
    else alone.push(i);
  }
  const arcs = [];
  for (let i = part.start; i < part.stop; i++) {
    if (peer.has(i)) {
      arcs.push(arc(i, peer.get(i), part.block, n - part.start, "Alg. 2 line 15"));
      continue;
    }
    const first = Math.floor(alone.indexOf(i) / base) * base;
    const group = alone.slice(first, first + base);
    for (const other of group) {
      if (other !== i) arcs.push(arc(i, other, 1, group.length, "Alg. 2 line 20"));
    }
  }
  return arcs;
}

function baseGraph(n, k) {
  const plain = simpleBase(n, k);
  const p = smoothPart(n, k + 1);
  const q = n / p;
  if (p === 1 || q === 1) return plain;
  const inner = simpleBase(q, k);
  const outer = hyperHypercube(p, k, "Alg. 3 line 10");
  if (plain.period < inner.period + outer.period) return plain;
  const rounds = [];
  for (let step = 0; step < inner.period; step++) {
    const copies = Array.from({ length: p }, (_, group) =>
      inner.round(step).map(([i, j, ...rest]) => [group * q + i, group * q + j, ...rest]),
    );
    rounds.push(copies.flat());
  }
  for (let step = 0; step < outer.period; step++) {
    const copies = Array.from({ length: q }, (_, member) =>
      outer.round(step).map(([i, j, ...rest]) => [i * q + member, j * q + member, ...rest]),
    );
    rounds.push(copies.flat());
  }
  return sequence(rounds);
}

// ---- baselines ---------------------------------------------------------------------------------

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

// ---- the catalogue: name -> [builder, options] --------------------------------------------------

const CATALOGUE = {
  base: [(n, o) => baseGraph(n, o.k), ["k"]],
  "simple-base": [(n, o) => simpleBase(n, o.k), ["k"]],
  "hyper-hypercube": [(n, o) => hyperHypercube(n, o.k), ["k"]],
  euclid: [euclid, []],
  "one-peer-hypercube": [onePeerHypercube, []],
  "one-peer-exponential": [onePeerExponential, []],
  exponential: [exponential, []],
  ring: [ring, []],
  torus: [torus, []],
  complete: [complete, []],
  "d-equistatic": [(n, o) => dEquistatic(n, o.degree, o.seed), ["degree", "seed"]],
  "u-equistatic": [(n, o) => uEquistatic(n, o.degree, o.seed), ["degree", "seed"]],
  "one-peer-d-equidyn": [(n, o) => onePeerDEquidyn(n, o.seed), ["seed"]],
  "one-peer-u-equidyn": [(n, o) => onePeerUEquidyn(n, o.seed), ["seed"]],
  ceca: [ceca, []],
};
const DEFAULTS = { k: 1, degree: 1, seed: 0 };

function parseSpec(spec) {
  const [name, rest = ""] = spec.split(":");
  const options = {};
  for (const item of rest.split(",").filter(Boolean)) {
    const [option, value] = item.split("=");
    options[option] = Number(value);
  }
  return { name, options };
}

function formatSpec(name, options) {
  const known = CATALOGUE[name][1].map((option) => `${option}=${options[option] ?? DEFAULTS[option]}`);
  return known.length ? `${name}:${known.join(",")}` : name;
}

const built = new Map();

function topology(spec, n) {
  const key = `${spec}/${n}`;
  if (!built.has(key)) {
    const { name, options } = parseSpec(spec);
    if (!CATALOGUE[name]) throw new Error(`no topology is called ${name}`);
    const [build] = CATALOGUE[name];
    if (built.size > 40) built.clear();
    built.set(key, { n, spec, ...build(n, { ...DEFAULTS, ...options }) });
  }
  return built.get(key);
}

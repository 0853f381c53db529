// Gossip averaging in the page: values before every round, and how much they disagree.

// Gaussian start values from a small seeded generator (mulberry32 and Box-Muller).
function gaussianStart(n, seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return Array.from({ length: n }, () => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    return radius * Math.cos(2 * Math.PI * uniform());
  });
}

function mix(arcs, x) {
  const mixed = x.slice();
  for (const [i, j, a, b] of arcs) mixed[i] += (a / b) * (x[j] - x[i]);
  return mixed;
}

function disagreement(x) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  return x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
}

// One round of nodes that keep two vectors: [x, y] after it.
function mixTwo(arcs, { sent, weight: [a, b] }, x, y) {
  const heard = sent === "x" ? x : y;
  const second = y.slice();
  const first = x.slice();
  for (const [i, j, c, d] of arcs) {
    first[i] += (c / d) * (heard[j] - x[i]);
    second[i] += (a / b) * (heard[j] - y[i]);
  }
  return [first, second];
}

// { states, errors }: before round 0, 1, ..., steps.
function gossip(t, x0, steps) {
  const states = [x0];
  let y = x0;
  for (let step = 0; step < steps; step++) {
    let x;
    if (t.second) [x, y] = mixTwo(t.round(step), t.second(step), states[step], y);
    else x = mix(t.round(step), states[step]);
    states.push(x);
  }
  return { states, errors: states.map(disagreement) };
}

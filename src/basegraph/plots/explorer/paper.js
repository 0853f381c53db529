// The paper's constructions.

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

// Euclid: every round is a mirror of a circle, [shift, numerator, denominator of the weight].

// [mirrors, v]: the first v coprime to the factor whose partial quotients have the smallest sum.
function bestSplit(factor) {
  let best = null;
  for (let v = 1; v <= factor / 2; v++) {
    let [larger, smaller, sum] = [factor, v, 0];
    while (smaller) {
      sum += Math.floor(larger / smaller);
      [larger, smaller] = [smaller, larger % smaller];
    }
    if (larger === 1 && (!best || sum - 1 < best[0])) best = [sum - 1, v];
  }
  return best;
}

const circleFactors = new Map([[1, []]]);

// The factors, ascending, that make the fewest mirrors; of equals, the first as lists of numbers.
function euclidFactors(places) {
  if (!circleFactors.has(places)) {
    const options = [[places]];
    for (let factor = 2; factor <= places / 2; factor++) {
      if (places % factor) continue;
      options.push([factor, ...euclidFactors(places / factor)].sort((a, b) => a - b));
    }
    const ranked = options.map((parts) => [
      parts.reduce((sum, factor) => sum + bestSplit(factor)[0], 0),
      ...parts,
    ]);
    const least = ranked.reduce((a, b) => {
      const differs = a.findIndex((value, i) => value !== b[i]);
      return differs < 0 || a[differs] < b[differs] ? a : b;
    });
    circleFactors.set(places, least.slice(1));
  }
  return circleFactors.get(places);
}

function mirrors(places) {
  const found = [[0, 1, 2]];
  let [start, length] = [0, 1]; // of the uniform arc
  for (const factor of euclidFactors(places)) {
    const [steps, left] = mirrorChain(factor, bestSplit(factor)[1]);
    for (const [s, a, b] of steps) found.push([2 * start + (s + 1) * length - 1, a, b]);
    [start, length] = [start + left * length, length * factor];
  }
  return found;
}

// One place becomes a uniform arc of `factor`: the values u, v of its two parts run through Euclid.
function mirrorChain(factor, split) {
  const found = [[1, split, factor]];
  let [left, a, u, b, v] = [0, 1, factor - split, 1, split];
  while (u !== v) {
    if (u > v) {
      found.push([2 * left + 2 * a + b - 1, v, u]);
      [u, b] = [u - v, a + b];
    } else {
      found.push([2 * left + a - 1, u, v]);
      [left, v, a] = [left - b, v - u, a + b];
    }
  }
  return [found, left];
}

function euclid(n) {
  if (n === 1) return sequence([[]]);
  const places = n % 2 ? n : n / 2;
  const around = (x) => ((x % places) + places) % places;
  const rounds = mirrors(places).map(([shift, a, b]) => {
    const arcs = [];
    for (let i = 0; i < places; i++) {
      const peer = n % 2 ? around(shift - i) : places + around(i + shift);
      if (peer === i) continue;
      arcs.push(arc(i, peer, a, b, "euclid mirror"));
      if (n % 2 === 0) arcs.push(arc(peer, i, a, b, "euclid mirror"));
    }
    return arcs;
  });
  return sequence(rounds);
}

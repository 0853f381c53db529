// What constructions are made of. A round is a list of arcs [receiver, sender, numerator,
// denominator, origin]; the library's tests compare all of them arc for arc.

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

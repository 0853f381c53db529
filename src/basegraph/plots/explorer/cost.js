// Bytes and seconds by the library's model of a network (bg.analysis.Network): equal links into one
// switch, a round takes the latency and as long as the busiest link needs.

// The most messages that any node sends and hears in a round.
function busiest(n, arcs) {
  const [sent, heard] = [new Array(n).fill(0), new Array(n).fill(0)];
  for (const [i, j] of arcs) {
    heard[i]++;
    sent[j]++;
  }
  return { sent: Math.max(...sent), heard: Math.max(...heard), sentBy: sent };
}

// Seconds of a round in which the busiest node sends and hears so many bytes.
function roundSeconds(network, sent, heard) {
  const carried = Math.max(sent, heard);
  return carried ? network.latency + carried / network.bandwidth : 0;
}

// { rounds, bytesPerStep, secondsPerStep, bytesToAverage, secondsToAverage } of vectors of `size`
// bytes. The rounds of a random topology are counted over its first ones; `exact` says whether a
// period ends in the exact average.
function costOf(t, exact, size, network) {
  const rounds = t.period || 12;
  const sent = new Array(t.n).fill(0);
  let seconds = 0;
  for (let step = 0; step < rounds; step++) {
    const busy = busiest(t.n, t.round(step));
    busy.sentBy.forEach((count, i) => (sent[i] += count));
    seconds += roundSeconds(network, size * busy.sent, size * busy.heard);
  }
  const bytes = size * Math.max(...sent);
  return {
    rounds,
    bytesPerStep: bytes / rounds,
    secondsPerStep: seconds / rounds,
    bytesToAverage: exact ? bytes : null,
    secondsToAverage: exact ? seconds : null,
  };
}

// The same for an all-reduce, in a ring or by halving and doubling: a step is all of it.
function allReduceCost(name, n, size, network) {
  let [rounds, bytes, seconds] = [2 * (n - 1), (2 * size * (n - 1)) / n, 0];
  if (name === "all-reduce") {
    seconds = rounds * roundSeconds(network, size / n, size / n);
  } else {
    const levels = Math.floor(Math.log2(n) + 1e-9);
    const surplus = 2 ** levels < n ? 1 : 0;
    const pieces = Array.from({ length: levels }, (_, level) => size / 2 ** (level + 1));
    rounds = 2 * (levels + surplus);
    bytes = 2 * pieces.reduce((a, b) => a + b, 0) + size * surplus;
    seconds = 2 * surplus * roundSeconds(network, size, 0);
    for (const piece of pieces) seconds += 2 * roundSeconds(network, piece, piece);
  }
  const step = { bytesPerStep: bytes, secondsPerStep: seconds };
  return { rounds, ...step, bytesToAverage: bytes, secondsToAverage: seconds };
}

function secondsText(seconds) {
  if (seconds >= 120) return `${Number((seconds / 60).toPrecision(3))} min`;
  return seconds >= 1 ? `${Number(seconds.toPrecision(3))} s` : `${short(seconds * 1e6, ["µs", "ms"])}`;
}

// What is chosen, and what follows from it: the runs of gossip that the page shows.

const SPEEDS = { "½×": 1400, "1×": 700, "2×": 350, "4×": 175 };
const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
const state = {
  spec: START.topology,
  n: START.nodes,
  compared: START.compared,
  step: 0,
  selected: null,
  playing: null,
  interval: reducedMotion.matches ? SPEEDS["½×"] : SPEEDS["1×"],
  seed: 0,
};
let current = null;

function runs() {
  const t = topology(state.spec, state.n);
  const x0 = gaussianStart(state.n, state.seed);
  const specs = [state.spec, ...state.compared.filter((spec) => spec !== state.spec)];
  const defined = specs.filter((spec) => refusal(spec, state.n) === null);
  const periods = defined.slice(1).map((spec) => (topology(spec, state.n).period || 0) + 1);
  const steps = Math.max(12, 2 * (t.period || 6), ...periods);
  const curves = specs.map((spec) =>
    defined.includes(spec)
      ? { spec, t: topology(spec, state.n), ...gossip(topology(spec, state.n), x0, steps) }
      : { spec, missing: refusal(spec, state.n) },
  );
  return { t, steps, x0, scale: scaleOfValues(x0), curves };
}

// The network and the vectors of the cost model, from their fields.
function network() {
  const field = (id) => Math.max(0, Number(find(id).value) || 0);
  return {
    size: 4e6 * field("parameters"),
    bandwidth: Math.max(1, (field("bandwidth") * 1e6) / 8),
    latency: field("latency") / 1000,
  };
}

// #name:option=value,.../n, written by this page or by hand: what makes no sense is passed over.
function readHash() {
  const [spec, n] = location.hash.slice(1).replaceAll("%2C", ",").replaceAll("%3A", ":").split("/");
  const { name, options } = parseSpec(spec || "");
  if (Object.hasOwn(CATALOGUE, name)) {
    const sound = Object.entries(options).filter(([option, value]) => isSound(option, value));
    state.spec = formatSpec(name, Object.fromEntries(sound));
  }
  if (Number.isInteger(Number(n)) && Number(n) >= 1 && Number(n) <= MOST_SHOWN_NODES) state.n = Number(n);
}

function isSound(option, value) {
  if (option === "home") return typeof value === "boolean";
  const low = option === "seed" ? 0 : 1;
  return Number.isInteger(value) && value >= low && value <= 10 ** 6;
}

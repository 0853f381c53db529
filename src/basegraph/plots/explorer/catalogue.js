// The catalogue: specs such as base:k=2, and the topologies that they name.

// name -> [builder, options]; those without a builder are packed into the page (packed.js).
const CATALOGUE = {
  base: [(n, o) => baseGraph(n, o.k), ["k"]],
  "simple-base": [(n, o) => simpleBase(n, o.k), ["k"]],
  "hyper-hypercube": [(n, o) => hyperHypercube(n, o.k), ["k"]],
  short: [null, ["k", "home"]],
  euclid: [euclid, []],
  steady: [null, []],
  "block-mix": [null, ["k"]],
  "block-merge": [null, ["k"]],
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
const DEFAULTS = { k: 1, degree: 1, seed: 0, home: false };
const LEAST_K = { "block-merge": 2 };
const MOST_SHOWN_NODES = 300;

function parseSpec(spec) {
  const [name, rest = ""] = spec.split(":");
  const options = {};
  for (const item of rest.split(",").filter(Boolean)) {
    const [option, value] = item.split("=");
    options[option] = option === "home" ? value === "true" : Number(value);
  }
  return { name, options };
}

function formatSpec(name, options) {
  const known = CATALOGUE[name][1]
    .filter((option) => option !== "home" || options.home)
    .map((option) => `${option}=${options[option] ?? LEAST_K[name] ?? DEFAULTS[option]}`);
  return known.length ? `${name}:${known.join(",")}` : name;
}

const built = new Map();

function topology(spec, n) {
  const key = `${spec}/${n}`;
  if (!built.has(key)) {
    const { name, options } = parseSpec(spec);
    if (!Object.hasOwn(CATALOGUE, name)) throw new Error(`no topology is called ${name}`);
    const [build] = CATALOGUE[name];
    const full = formatSpec(name, options);
    if (built.size > 40) built.clear();
    const made = build ? build(n, { ...DEFAULTS, ...options }) : packedTopology(full, n);
    built.set(key, { n, spec, ...made });
  }
  return built.get(key);
}

// Whether a topology exists on n nodes, and why not.
function refusal(spec, n) {
  try {
    topology(spec, n);
    return null;
  } catch (error) {
    return error.message;
  }
}

// The nearest numbers of nodes below and above for which a topology can be shown.
function nearestNodes(spec, n) {
  const at = Math.max(1, Math.min(MOST_SHOWN_NODES, Math.round(n) || 1));
  const nearest = [];
  for (let below = at; below >= 1; below--) {
    if (refusal(spec, below) === null) {
      nearest.push(below);
      break;
    }
  }
  for (let above = at + 1; above <= MOST_SHOWN_NODES; above++) {
    if (refusal(spec, above) === null) {
      nearest.push(above);
      break;
    }
  }
  return nearest;
}

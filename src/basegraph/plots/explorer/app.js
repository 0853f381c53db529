// The page: what is chosen, what is shown, and the keys and buttons that change it.

const MOST_SHOWN_NODES = 300;
const state = {
  spec: START.topology,
  n: START.nodes,
  compared: START.compared,
  step: 0,
  selected: null,
  playing: null,
  seed: 0,
};
const find = (id) => document.getElementById(id);

// ---- what follows from the choice ----------------------------------------------------------------

function runs() {
  const t = topology(state.spec, state.n);
  const x0 = gaussianStart(state.n, state.seed);
  const specs = [state.spec, ...state.compared.filter((spec) => spec !== state.spec)];
  const steps = Math.max(12, 2 * (t.period || 6), ...specs.slice(1).map(periodOf));
  const curves = [];
  for (const spec of specs) {
    try {
      curves.push({ spec, ...gossip(topology(spec, state.n), x0, steps) });
    } catch {
      curves.push({ spec, missing: true }); // not defined for this n: the legend says so
    }
  }
  return { t, steps, x0, curves };
}

function periodOf(spec) {
  try {
    return (topology(spec, state.n).period || 0) + 1;
  } catch {
    return 0; // not defined for this n
  }
}

let current = null;

function rebuild() {
  stop();
  find("problem").textContent = "";
  try {
    current = runs();
  } catch (error) {
    current = null;
    find("problem").textContent = `${state.spec}, n = ${state.n}: ${error.message}`;
    find("status").textContent = "";
    history.replaceState(null, "", `#${state.spec}/${state.n}`);
    for (const id of ["graph", "errors", "rounds", "legend", "origins"]) find(id).replaceChildren();
    return;
  }
  state.step = 0;
  if (state.selected !== null && state.selected >= state.n) state.selected = null;
  find("slider").max = current.steps;
  history.replaceState(null, "", `#${state.spec}/${state.n}`);
  legend();
  show();
}

function show() {
  if (!current) return;
  const { t, steps, x0, curves } = current;
  const range = Math.max(...x0.map(Math.abs));
  const { states, errors } = curves[0];
  drawRound(find("graph"), t, state.step, states[state.step], range, state.selected);
  drawErrors(find("errors"), curves.filter((c) => !c.missing), state.step, steps);
  const phase = t.period ? `${state.step % t.period} (of 0 to ${t.period - 1})` : `${state.step}`;
  const error = errors[state.step];
  const exact = error <= 1e-28 * errors[0];
  const rounds_ = state.step === 1 ? "1 round" : `${state.step} rounds`;
  const own = state.selected === null ? "" : ` Node ${state.selected} holds ${states[state.step][state.selected].toPrecision(4)}.`;
  find("status").textContent =
    `After ${rounds_}: consensus error ${error.toExponential(1)}` +
    `${exact ? ", exact average" : ""}${t.second ? " (two vectors per node; shown: x)" : ""}. Drawn: round ${phase}, which comes next.${own}`;
  find("slider").value = state.step;
  origins(t.round(state.step));
  rounds(t);
}

function legend() {
  find("legend").replaceChildren(
    ...current.curves.map(({ spec, missing }, index) => {
      const item = document.createElement("li");
      const live = current.curves.slice(0, index).filter((c) => !c.missing).length;
      const mark = document.createElement("i");
      mark.style.background = missing ? "none" : CURVES[live % CURVES.length];
      const degree = missing ? "not defined for this n" : maxDegree(topology(spec, state.n));
      const two = !missing && topology(spec, state.n).second ? ", two vectors per node" : "";
      item.append(mark, `${spec} (${degree}${two})`);
      return item;
    }),
  );
}

function maxDegree(t) {
  let largest = 0;
  for (let step = 0; step < (t.period || 1); step++) {
    const heard = new Array(t.n).fill(0);
    const told = new Array(t.n).fill(0);
    for (const [i, j] of t.round(step)) {
      heard[i]++;
      told[j]++;
    }
    largest = Math.max(largest, ...heard, ...told);
  }
  return largest;
}

function origins(arcs) {
  const seen = [...new Set(arcs.map((a) => a[4]))].filter(Boolean).sort();
  find("origins").replaceChildren(
    ...seen.map((origin) => {
      const item = document.createElement("li");
      const mark = document.createElement("i");
      mark.style.background = ORIGIN_COLORS[origin];
      item.append(mark, origin);
      return item;
    }),
  );
}

// Whom the selected node hears, round by round, with exact weights.
function rounds(t) {
  const table = find("rounds");
  find("node").value = state.selected ?? "";
  if (state.selected === null) {
    table.replaceChildren();
    return;
  }
  const shown = t.period || current.steps + 1;
  const rows = Array.from({ length: shown }, (_, step) => {
    const heard = t.round(step).filter(([i]) => i === state.selected);
    const row = document.createElement("tr");
    if (step === state.step % shown) row.className = "now";
    const weights = heard.map(([, j, a, b]) => `${heardFrom(t, step, j)} (${a}/${b}${inSecond(t, step)})`).join(", ");
    for (const text of [step, weights || "nobody"]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  });
  const head = document.createElement("tr");
  for (const text of ["round", `node ${state.selected} hears (weight)`]) {
    const cell = document.createElement("th");
    cell.textContent = text;
    head.append(cell);
  }
  table.replaceChildren(head, ...rows);
}

// With two vectors per node: which of the sender's is heard, and its weight in the second vector.
function heardFrom(t, step, j) {
  return t.second ? `${t.second(step).sent} of ${j}` : `${j}`;
}

function inSecond(t, step) {
  return t.second ? ` in x, ${t.second(step).weight.join("/")} in y` : "";
}

// ---- what the user does ----------------------------------------------------------------------------

function go(step) {
  if (!current) return;
  state.step = Math.max(0, Math.min(current.steps, step));
  show();
}

function stop() {
  clearInterval(state.playing);
  state.playing = null;
  find("play").textContent = "Play";
}

function play() {
  if (state.playing) return stop();
  if (!current) return;
  if (state.step >= current.steps) go(0);
  find("play").textContent = "Pause";
  state.playing = setInterval(() => {
    if (state.step >= current.steps) stop();
    else go(state.step + 1);
  }, 700);
}

function select(node) {
  state.selected = node;
  show();
}

function choose() {
  const name = find("name").value;
  const n = Number(find("n").value);
  if (!(Number.isInteger(n) && n >= 1 && n <= MOST_SHOWN_NODES)) {
    find("problem").textContent = `n must be a whole number from 1 to ${MOST_SHOWN_NODES}`;
    return;
  }
  const options = {};
  for (const option of CATALOGUE[name][1]) {
    const value = Number(find(option).value);
    if (!isSound(option, value)) {
      const low = option === "seed" ? 0 : 1;
      find("problem").textContent = `${option} must be a whole number from ${low} to ${10 ** 6}`;
      return;
    }
    options[option] = value;
  }
  state.n = n;
  state.spec = formatSpec(name, options);
  fillControls();
  rebuild();
}

function fillControls() {
  const { name, options } = parseSpec(state.spec);
  find("name").value = name;
  find("n").value = state.n;
  for (const option of ["k", "degree", "seed"]) {
    find(option).value = options[option] ?? DEFAULTS[option];
    find(option).closest("label").hidden = !CATALOGUE[name][1].includes(option);
  }
}

// #name:option=value,.../n, written by this page or by hand: what makes no sense is passed over.
function readHash() {
  const [spec, n] = location.hash.slice(1).split("/");
  const { name, options } = parseSpec(spec || "");
  if (Object.hasOwn(CATALOGUE, name)) {
    const sound = Object.entries(options).filter(([option, value]) => isSound(option, value));
    state.spec = formatSpec(name, Object.fromEntries(sound));
  }
  if (Number.isInteger(Number(n)) && Number(n) >= 1 && Number(n) <= MOST_SHOWN_NODES) state.n = Number(n);
}

function isSound(option, value) {
  const low = option === "seed" ? 0 : 1;
  return Number.isInteger(value) && value >= low && value <= 10 ** 6;
}

function compareBoxes() {
  find("compared").replaceChildren(
    ...START.choices.map((spec) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = spec;
      box.checked = state.compared.includes(spec);
      box.addEventListener("change", () => {
        state.compared = START.choices.filter(
          (choice) => find("compared").querySelector(`[value="${choice}"]`).checked,
        );
        const { step } = state;
        rebuild();
        go(step);
      });
      label.append(box, ` ${spec}`);
      return label;
    }),
  );
}

function listen() {
  for (const name of Object.keys(CATALOGUE)) find("name").append(new Option(name, name));
  for (const id of ["name", "n", "k", "degree", "seed"]) find(id).addEventListener("change", choose);
  find("play").addEventListener("click", play);
  find("back").addEventListener("click", () => go(state.step - 1));
  find("forward").addEventListener("click", () => go(state.step + 1));
  find("reset").addEventListener("click", () => go(0));
  find("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  find("again").addEventListener("click", () => {
    state.seed++;
    rebuild();
  });
  find("node").addEventListener("change", (event) => {
    const node = Number(event.target.value);
    const sound = event.target.value !== "" && Number.isInteger(node) && node >= 0 && node < state.n;
    find("problem").textContent =
      sound || event.target.value === "" ? "" : `a node is a whole number from 0 to ${state.n - 1}`;
    select(sound ? node : null);
  });
  find("graph").addEventListener("click", (event) => {
    const { node } = event.target.dataset;
    select(node === undefined || Number(node) === state.selected ? null : Number(node));
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.matches("input:not([type=checkbox]), select") && event.key !== "Escape") return;
    if (event.target.matches("button, input") && event.key === " ") return;
    const keys = {
      " ": play,
      ArrowRight: () => go(state.step + 1),
      ArrowLeft: () => go(state.step - 1),
      ArrowUp: () => select(((state.selected ?? -1) + 1) % state.n),
      ArrowDown: () => select(((state.selected ?? 0) - 1 + state.n) % state.n),
      Home: () => go(0),
      End: () => current && go(current.t.period > 1 ? current.t.period : current.steps),
      Escape: () => select(null),
    };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
}

window.addEventListener("hashchange", () => {
  readHash();
  fillControls();
  rebuild();
});
listen();
readHash();
compareBoxes();
fillControls();
rebuild();

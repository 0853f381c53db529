// The page: keys and buttons, and what they change.

function rebuild() {
  stop();
  complain("");
  history.replaceState(null, "", `#${state.spec}/${state.n}`);
  const why = refusal(state.spec, state.n);
  find("saving").hidden = why !== null;
  if (why !== null) {
    current = null;
    complain(`${state.spec}, n = ${state.n}: ${why}.`, nearestNodes(state.spec, state.n));
    for (const id of ["graph", "errors", "rounds", "legend", "origins", "scale", "status", "round"]) {
      find(id).replaceChildren();
    }
    return;
  }
  current = runs();
  state.step = 0;
  if (state.selected !== null && state.selected >= state.n) state.selected = null;
  find("slider").max = current.steps;
  find("python").value = pythonLine();
  find("copy").textContent = "Copy";
  legend();
  drawScale(find("scale"), current.scale);
  show();
}

function show() {
  if (!current) return;
  const { t, steps, scale, curves } = current;
  const drawn = drawRound(find("graph"), t, state.step, curves[0].states[state.step], scale, state.selected);
  drawErrors(find("errors"), curves.filter((curve) => !curve.missing), state.step, steps);
  find("status").textContent = statusText();
  find("round").textContent = roundText(drawn);
  find("slider").value = state.step;
  origins(t.round(state.step));
  rounds(t);
}

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
  }, state.interval);
}

function setSpeed() {
  state.interval = Number(find("speed").value);
  if (!state.playing) return;
  stop();
  play();
}

function showCosts() {
  if (!current) return;
  legend();
  show();
}

function select(node) {
  state.selected = node;
  show();
}

function typeNode(event) {
  const node = Number(event.target.value);
  const empty = event.target.value === "";
  const sound = !empty && Number.isInteger(node) && node >= 0 && node < state.n;
  complain(sound || empty ? "" : `A node is a whole number from 0 to ${state.n - 1}.`);
  select(sound ? node : null);
}

function choose() {
  const name = find("name").value;
  const options = {};
  for (const option of CATALOGUE[name][1]) {
    const field = find(option);
    const value = option === "home" ? field.checked : Number(field.value);
    if (!isSound(option, value)) {
      const low = option === "seed" ? 0 : 1;
      return complain(`${option} must be a whole number from ${low} to ${10 ** 6}.`);
    }
    options[option] = option === "k" ? Math.max(value, LEAST_K[name] ?? 1) : value;
  }
  const spec = formatSpec(name, options);
  const n = Number(find("n").value);
  if (!(Number.isInteger(n) && n >= 1 && n <= MOST_SHOWN_NODES)) {
    return complain(`n must be a whole number from 1 to ${MOST_SHOWN_NODES}.`, nearestNodes(spec, n));
  }
  state.n = n;
  state.spec = spec;
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
  find("home").checked = Boolean(options.home);
  find("home").closest("label").hidden = !CATALOGUE[name][1].includes("home");
}

function compareBoxes() {
  find("compared").replaceChildren(
    ...START.choices.map((spec) => {
      const box = html("input", { type: "checkbox", value: spec });
      box.checked = state.compared.includes(spec);
      box.addEventListener("change", () => {
        state.compared = START.choices.filter(
          (choice) => find("compared").querySelector(`[value="${choice}"]`).checked,
        );
        const { step } = state;
        rebuild();
        go(step);
      });
      return html("label", {}, box, ` ${spec}`);
    }),
  );
}

function pressKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches("input:not([type=checkbox]), select") && event.key !== "Escape") return;
  if (event.target.matches("button, input, a, summary") && [" ", "Enter"].includes(event.key)) return;
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
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function listen() {
  const on = (id, event, react) => find(id).addEventListener(event, react);
  for (const name of Object.keys(CATALOGUE)) find("name").append(new Option(name, name));
  for (const [text, interval] of Object.entries(SPEEDS)) find("speed").append(new Option(text, interval));
  find("speed").value = state.interval;
  for (const id of ["name", "n", "k", "degree", "seed", "home"]) on(id, "change", choose);
  for (const id of ["parameters", "bandwidth", "latency"]) on(id, "input", showCosts);
  on("play", "click", play);
  on("speed", "change", setSpeed);
  on("back", "click", () => go(state.step - 1));
  on("forward", "click", () => go(state.step + 1));
  on("reset", "click", () => go(0));
  on("slider", "input", (event) => go(Number(event.target.value)));
  on("again", "click", () => {
    state.seed++;
    rebuild();
  });
  on("node", "input", typeNode);
  on("save-svg", "click", () => download(roundAsSvg(), "image/svg+xml", fileName("svg")));
  on("save-gif", "click", saveGif);
  on("copy", "click", copyPython);
  on("graph", "click", (event) => {
    const { node } = event.target.dataset;
    select(node === undefined || Number(node) === state.selected ? null : Number(node));
  });
  document.addEventListener("keydown", pressKey);
  window.addEventListener("hashchange", start);
}

function start() {
  readHash();
  compareBoxes();
  fillControls();
  rebuild();
}

unpack(PACKED).then(() => {
  listen();
  start();
  document.body.dataset.ready = "";
});

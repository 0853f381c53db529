// The color and the dashes of a topology: LOOKS is the package's colors.json, read as colors.py does.

const ALL_REDUCES = ["all-reduce", "all-reduce-halving"];

function lookOf(spec) {
  const { name, options } = parseSpec(spec);
  const withK = Object.keys(LOOKS.looks).filter((known) => known.startsWith(`${name}:`));
  const wanted = options.k === undefined ? withK[0] : `${name}:k=${options.k}`;
  const entry = withK.length
    ? LOOKS.looks[wanted] || LOOKS.looks[withK[withK.length - 1]]
    : LOOKS.looks[name] || LOOKS.others[0];
  return { ...entry, dashes: options.home ? LOOKS.home.dashes : entry.dashes };
}

// What is asked of recordings besides their scores: verdicts of speakers, by their turns.
// Turns are used once: those of one call must not be taken for those of the next.
let turns = [];

function bareName(name) {
  const at = name.lastIndexOf('.');
  const stem = data.suffixes.includes(name.slice(at).toLowerCase()) ? name.slice(0, at) : name;
  return stem.trim().split(/\s+/).join('_');
}

const isTurns = ({ name }) => /\.rttm$/i.test(name);

// An RTTM with the recordings that it names, without folder, suffix and blanks, in column 2.
async function readTurns({ file, name }) {
  const lines = (await file.text()).split('\n').map((line) => line.trim().split(/\s+/));
  return { file, name, named: new Set(lines.filter(([kind]) => kind === 'SPEAKER').map(([, recording]) => recording)) };
}

function setTurns(chosen) {
  turns = chosen;
  byId('turns-chosen').textContent = turns.map(({ name }) => name).join(', ');
  byId('turns-remove').hidden = !turns.length;
}

// Of one recording the turns are its own, whatever they call it; of several, those that name it.
function turnsOf(name, isAlone) {
  if (!turns.length) return {};
  if (isAlone && turns.length === 1) return { turns: turns[0].file };
  const own = turns.find(({ named }) => named.has(bareName(name)));
  if (own) return { turns: own.file };
  return { note: `There are no turns of this recording in ${turns.map((each) => each.name).join(', ')}.` };
}

// The recordings among files, each with its turns.
async function prepare(files) {
  const chosen = await Promise.all(files.filter(isTurns).map(readTurns));
  if (chosen.length) setTurns(chosen);
  const recorded = files.filter((file) => !isTurns(file));
  if (!recorded.length) return [];
  const entries = recorded.map(({ file, name }) => ({ file, name, ...turnsOf(name, recorded.length === 1) }));
  setTurns([]);
  return entries;
}

byId('turns').addEventListener('change', async ({ target }) => {
  setTurns(await Promise.all(named(target.files).map(readTurns)));
  // The same file may be chosen again.
  target.value = '';
});
byId('turns-remove').addEventListener('click', () => {
  setTurns([]);
  byId('turns').focus();
});

// The recording played, whole or a part of it, from the browser's own copy.
const player = document.getElementById('player');
let playUntil = Infinity;

player.addEventListener('timeupdate', () => {
  if (player.currentTime < playUntil) return;
  playUntil = Infinity;
  player.pause();
});
player.addEventListener('error', () => showPlayable(false));

function showPlayable(playable) {
  player.hidden = !playable;
  document.getElementById('unplayable').hidden = playable;
  document.querySelectorAll('#parts button').forEach((button) => { button.disabled = !playable; });
}

function load(file) {
  if (player.src) URL.revokeObjectURL(player.src);
  playUntil = Infinity;
  player.src = URL.createObjectURL(file);
  showPlayable(true);
}

function play(from, until = Infinity) {
  player.currentTime = from;
  playUntil = until;
  player.play().catch(() => {});
}

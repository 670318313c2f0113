// Keys: g and a letter opens a page, / goes to the search field, l shows the graph as a list, ? shows the keys. Every page
// can be used without them.

const WAIT_MS = 1500;
const OTHERS = { p: "/", h: "/help" };
let armedAt = 0;

function isTyping(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

function open(letter) {
  const link = document.querySelector(`nav a[data-key="${CSS.escape(letter)}"]`);
  const goal = link ? link.href : OTHERS[letter];
  if (goal) location.assign(goal);
  return Boolean(goal);
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const isArmed = Date.now() - armedAt < WAIT_MS;
  armedAt = 0;
  if (isArmed && open(event.key)) {
    event.preventDefault();
  } else if (event.key === "g") {
    armedAt = Date.now();
  } else if (event.key === "?") {
    event.preventDefault();
    const keys = document.getElementById("keys-dialog");
    if (keys && !keys.open) keys.showModal();
  } else if (event.key === "l") {
    const list = document.querySelector("#graph ~ #list .scroll");
    if (list && document.body.classList.toggle("list-only")) list.focus();
  } else if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
});

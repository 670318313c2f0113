// Replaces the live parts of a page when the pipeline has new events. The page is complete without it.

const LEAST_PAUSE_MS = 3000;
const PENDING_MS = 1500;
const RUNNING_MS = 4000;
const FOLLOW_MS = [2500, 8000];
const events = document.body.dataset.events;
let waiting = false;
let refreshedAt = 0;

// The forms of a newer page have other ids, and ask for the same.
function content(part) {
  return part.outerHTML.replace(/name="key" value="[^"]*"/g, "");
}

async function refresh() {
  waiting = false;
  refreshedAt = Date.now();
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of page.querySelectorAll("[data-live]")) {
    const shown = document.getElementById(part.id);
    // What is being used stays as it is.
    if (shown && !shown.contains(document.activeElement) && content(shown) !== content(part)) {
      shown.replaceWith(document.importNode(part, true));
    }
  }
}

function schedule() {
  if (waiting || document.hidden) return;
  waiting = true;
  const pause = Math.max(0, refreshedAt + LEAST_PAUSE_MS - Date.now());
  setTimeout(() => refresh().catch(() => {}), pause + 300);
}

// What the server read before a request ended, it uses again for some seconds.
function follow() {
  for (const ms of FOLLOW_MS) setTimeout(schedule, ms);
}

// A request has no events of its own.
let wasPending = document.getElementById("notice") !== null;
setInterval(() => {
  const isPending = document.querySelector("[data-pending]") !== null;
  if (isPending && !document.hidden) refresh().catch(() => {});
  if (wasPending && !isPending) follow();
  wasPending = isPending;
}, PENDING_MS);

// The end of a process that was killed, or that releases its lease, is no event.
setInterval(() => {
  if (document.querySelector("[data-live][data-running], [data-live] [data-running]") !== null) schedule();
}, RUNNING_MS);

if (events) {
  const source = new EventSource(events);
  source.addEventListener("event", schedule);
  source.addEventListener("refresh", schedule);
  document.addEventListener("visibilitychange", schedule);
  addEventListener("pagehide", () => source.close());
}

// Asks for the same address again, less often from time to time, and reloads the page when the answer has changed. A page that
// reloads without need would take the place of one that somebody still reads (WCAG 2.2.1).
const { reason, message, seconds } = document.currentScript.dataset;
let pause = seconds * 1000;
async function look() {
  try {
    const headers = { accept: "application/problem+json" };
    const answer = await fetch(location.href, { headers, redirect: "manual", cache: "no-store" });
    const isProblem = answer.headers.get("content-type") === headers.accept;
    const now = isProblem ? await answer.json() : {};
    if (now.reason !== reason || (now.message ?? "") !== message) return location.reload();
  } catch {
    // Not even the gateway can be reached: it may be back the next time.
  }
  pause = Math.min(pause * 1.2, 30_000);
  setTimeout(look, pause);
}
setTimeout(look, pause);

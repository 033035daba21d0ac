// Requests the same address again, at growing intervals, and reloads the page when the response has changed. Without a
// change it does not reload, so that users can read the page without interruption (WCAG 2.2.1).
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
    // The gateway is unreachable. Try again later.
  }
  pause = Math.min(pause * 1.2, 30_000);
  setTimeout(look, pause);
}
setTimeout(look, pause);

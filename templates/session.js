// Tells the user of an open page when its session has ended, and offers to sign in without leaving the page. Ludgate
// adds this script to the pages of apps with `session_notice`. Checking the session does not extend it.
(() => {
  if (window.ludgateSession) return;
  window.ludgateSession = true;
  const LONGEST_PAUSE = 60;
  let notice = null;
  let dismissed = false;
  let timer = 0;

  const check = async () => {
    clearTimeout(timer);
    // A hidden page checks again when it is shown.
    if (document.visibilityState !== "visible") return;
    let pause = LONGEST_PAUSE;
    try {
      const answer = await fetch("/.ludgate/session", { cache: "no-store", redirect: "error" });
      if (answer.ok) {
        const state = await answer.json();
        if (state.signed_in) {
          hide();
          dismissed = false;
          pause = Math.min((state.expires_in ?? LONGEST_PAUSE) + 1, LONGEST_PAUSE);
        } else if (!dismissed) {
          show();
        }
      }
    } catch {
      // The gateway is unreachable, which says nothing about the session.
    }
    clearTimeout(timer);
    timer = setTimeout(check, pause * 1000);
  };

  const hide = () => {
    notice?.remove();
    notice = null;
  };

  const show = () => {
    if (notice) return;
    notice = document.createElement("div");
    notice.style.cssText = "all:initial;position:fixed;inset:1rem 1rem auto;z-index:2147483647;display:block";
    // The styles of the page do not reach into a shadow root.
    const root = notice.attachShadow({ mode: "closed" });
    const box = document.createElement("div");
    box.setAttribute("role", "alert");
    box.style.cssText =
      "display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;max-width:36rem;margin:0 auto;" +
      "padding:.75rem 1rem;font:1rem/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;" +
      "border:1px solid #767676;border-radius:.5rem;box-shadow:0 2px 12px rgb(0 0 0/.3)";
    const text = document.createElement("span");
    text.style.cssText = "flex:1 1 14rem";
    text.textContent = "Your session has ended.";
    const link = document.createElement("a");
    link.href = new URL("/.ludgate/renewed", location.origin).href;
    link.target = "_blank";
    link.style.cssText = "padding:.25rem 0;color:#0b57d0";
    link.textContent = "Sign in";
    link.addEventListener("click", (event) => {
      const opened = window.open(link.href, "ludgate-renew", "popup,width=520,height=680");
      // Without a small window, the link opens a tab.
      if (opened) event.preventDefault();
    });
    const close = document.createElement("button");
    close.type = "button";
    close.style.cssText =
      "padding:.25rem .5rem;font:inherit;color:inherit;background:none;border:1px solid;border-radius:.25rem";
    close.textContent = "Not now";
    close.addEventListener("click", () => {
      dismissed = true;
      hide();
    });
    box.append(text, link, close);
    root.append(box);
    document.documentElement.append(notice);
  };

  window.addEventListener("message", (message) => {
    if (message.origin === location.origin && message.data?.renewed === true) check();
  });
  // Cross-Origin-Opener-Policy can keep the message of the small window away.
  window.addEventListener("focus", () => notice && check());
  window.addEventListener("pageshow", check);
  document.addEventListener("visibilitychange", check);
  check();
})();

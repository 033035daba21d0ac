// Renews the session of a page without leaving it: opens a window that signs the user in, and resolves after the sign-in.
// Call it from a click, or the browser will not open the window. Rejects when the window is closed before.
//
//   import { renew } from "/.ludgate/renew.js";
//   let answer = await fetch(url);
//   if (answer.status === 401) { await renew(); answer = await fetch(url); }
export function renew() {
  return new Promise((resolve, reject) => {
    const opened = window.open("/.ludgate/renewed", "ludgate-renew", "popup,width=520,height=680");
    if (!opened) {
      reject(new Error("the browser opened no window"));
      return;
    }
    const done = (finish, value) => {
      clearInterval(watch);
      window.removeEventListener("message", hear);
      finish(value);
    };
    const hear = (message) => {
      // A window that is closed already is no source any more.
      const isOurs = message.source === opened || message.source === null;
      if (message.origin === location.origin && isOurs && message.data?.renewed === true) done(resolve);
    };
    // The last message can arrive after the window is reported as closed. Cross-Origin-Opener-Policy also makes an open
    // window look closed.
    let seen = 0;
    const watch = setInterval(() => {
      seen = opened.closed ? seen + 1 : 0;
      if (seen > 3) done(reject, new Error("the window was closed"));
    }, 500);
    window.addEventListener("message", hear);
  });
}

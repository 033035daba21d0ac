// A page of Express with absolute links: its script, and the address that its button requests. Argument: port.
const express = require("express");

const page = '<link rel="icon" href="data:,"><button>Who am I?</button><p></p><script src="/page.js"></script>';
const script = `document.querySelector("button").onclick = async () => {
  document.querySelector("p").innerText = await (await fetch("/answer")).text();
};`;

const app = express();
app.get("/", (_, response) => response.send(page));
app.get("/page.js", (_, response) => response.type("js").send(script));
app.get("/answer", (request, response) => response.send(`You are ${request.headers["x-forwarded-user"]}`));
app.listen(Number(process.argv[2]), "127.0.0.1");

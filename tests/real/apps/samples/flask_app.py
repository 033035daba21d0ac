"""A page of Flask: a form and a redirect, with absolute links that Flask generates.

Arguments: port; then `path` behind a path.
"""

import sys

from flask import Flask, redirect, request, url_for
from werkzeug.middleware.proxy_fix import ProxyFix

port, *where = sys.argv[1:]
app = Flask(__name__)
if where == ["path"]:
    app.wsgi_app = ProxyFix(app.wsgi_app, x_prefix=1, x_host=1, x_proto=1)


@app.get("/")
def page() -> str:
    icon = "<link rel=icon href=data:,>"
    return f"{icon}<form method=post action={url_for('ask')}><button>Who am I?</button></form>"


@app.post("/ask")
def ask():
    return redirect(url_for("answer"))


@app.get("/answer")
def answer() -> str:
    return f"<link rel=icon href=data:,>You are {request.headers['X-Forwarded-User']}"


app.run(host="127.0.0.1", port=int(port))

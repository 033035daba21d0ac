"""A page of Dash: a button whose answer comes from a callback.

Arguments: port; then `path` behind a path.
"""

import sys

import flask
from dash import Dash, Input, Output, html

port, *where = sys.argv[1:]
prefix = "/apps/dash/" if where == ["path"] else "/"
app = Dash("Dash", requests_pathname_prefix=prefix, routes_pathname_prefix=prefix)
app.layout = html.Div([html.Button("Who am I?", id="button"), html.P(id="answer")])


@app.callback(Output("answer", "children"), Input("button", "n_clicks"), prevent_initial_call=True)
def answer(clicks: int) -> str:
    return f"You are {flask.request.headers['X-Forwarded-User']}"


app.run(host="127.0.0.1", port=port)

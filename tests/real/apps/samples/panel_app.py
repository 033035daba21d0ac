"""A page of Panel, which runs on Bokeh's server: a button whose answer comes through a WebSocket."""

import panel as pn

pn.extension()
user = pn.state.headers["X-Forwarded-User"]
button = pn.widgets.Button(name="Who am I?")
answer = pn.pane.Markdown()


def show(event) -> None:
    answer.object = f"You are {user}"


button.on_click(show)
pn.Column(button, answer).servable(title="Panel")

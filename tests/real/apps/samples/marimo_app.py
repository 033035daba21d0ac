"""A notebook of marimo: a button whose answer comes through a WebSocket."""

import marimo

app = marimo.App(app_title="marimo")


@app.cell
def _():
    import marimo as mo

    button = mo.ui.run_button(label="Who am I?")
    button
    return button, mo


@app.cell
def _(button, mo):
    mo.stop(not button.value)
    mo.md(f"You are {mo.app_meta().request.headers['x-forwarded-user']}")
    return


if __name__ == "__main__":
    app.run()

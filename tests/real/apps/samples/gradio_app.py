"""A page of Gradio: a button whose answer comes in an event stream.

Arguments: port; then `path` behind a path.
"""

import sys

import gradio as gr

port, *where = sys.argv[1:]
settings = dict(root_path="/apps/gradio") if where == ["path"] else {}


def answer(request: gr.Request) -> str:
    return f"You are {request.headers['x-forwarded-user']}"


with gr.Blocks(title="Gradio", analytics_enabled=False) as demo:
    gr.Button("Who am I?").click(answer, outputs=gr.Markdown())

demo.launch(server_name="127.0.0.1", server_port=int(port), quiet=True, **settings)

"""TensorBoard with one curve, `loss`, whose log is written to the current folder.

Arguments: those of TensorBoard.
"""

import sys

from tensorboard import main
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("log")
for step in range(3):
    summary = Summary(value=[Summary.Value(tag="loss", simple_value=1 / (1 + step))])
    writer.add_event(Event(step=step, wall_time=1_700_000_000 + step, summary=summary))
writer.close()
sys.argv += ["--logdir", "log", "--host", "127.0.0.1"]
main.run_main()

# SPDX-License-Identifier: Apache-2.0
"""Draws priorities.svg: three networks of three priorities on one core of the emulator, as `c7x_compute trace --output`
records them. The lowest runs without a pause, the middle one comes in between, and the highest one again and again.

    make models                                   # the networks
    python3 docs/pictures/priorities.py           # --build build --keep trace.json
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NETWORKS = [("ppocr-cls", 1), ("ppocr-rec", 4), ("ppocr-det", 8)]  # highest first
COLOURS = ["#c0392b", "#d68910", "#2471a3"]
LEFT, WIDTH, ROW, GAP, TOP = 150, 1000, 46, 26, 34
HIGH_CALLS = 12


class Device:
    """A shared emulator of its own, with the networks loaded."""

    def __init__(self, build, models, folder):
        self._program = str(build / "bin" / "c7x_compute")
        self._environment = {
            **os.environ,
            "C7X_DEVICE": f"emu:{folder}/socket",
            "C7X_EMULATOR": str(build / "bin" / "c7x_emulator"),
        }
        self._modules = [str(models / name / "lib0.out") for name, _ in NETWORKS]
        self._handles = []
        for module, (_, priority) in zip(self._modules, NETWORKS):
            printed = self.start("load", module, "--priority", str(priority)).communicate()[0]
            self._handles.append(printed.split("=")[1].strip())

    def start(self, *words):
        return subprocess.Popen(
            [self._program, *words], env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def infer(self, index, repeat):
        """Starts an inference on generated inputs, `repeat` times in one request."""
        return self.start("infer", self._handles[index], "--module", self._modules[index], "--repeat", str(repeat))


def record(build, models):
    """A recording, as parsed JSON."""
    with tempfile.TemporaryDirectory() as folder:
        device = Device(build, models, folder)
        for index in range(len(NETWORKS)):
            device.infer(index, 1).wait()  # the first call sets things up
        path = Path(folder) / "trace.json"
        tracer = device.start("trace", "--output", str(path))
        while not path.exists():
            time.sleep(0.01)
        low = device.infer(2, 20)
        time.sleep(0.1)
        middle = device.infer(1, 3)
        for _ in range(HIGH_CALLS):
            device.infer(0, 1).wait()
        middle.wait()
        low.wait()
        tracer.terminate()
        tracer.wait()
        device.start("emulator", "stop").wait()
        return json.loads(path.read_text())


def pick_rows(events):
    """The threads of the three priorities, highest first: [(name, tid)]."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    by_name = {name: tid for tid, name in names.items()}
    rows = []
    for _, priority in NETWORKS:
        name = "DSP_C7-1" if priority == 1 else f"DSP_C7-1_PRI_{priority}"
        rows.append((name, by_name[name]))
    return rows


def pick_window(events, rows):
    """The stretch of time to show, in us: around the first job of the middle priority."""
    job = next(e for e in events if e["ph"] == "X" and e.get("cat") == "job" and e["tid"] == rows[1][1])
    begin, length = job["ts"], job["dur"]
    return begin - 0.2 * length, begin + 1.2 * length


def clip(events, tid, category, window):
    """Slices of a thread in the window: [(begin, end, name)]."""
    found = []
    for event in events:
        if event["ph"] != "X" or event["tid"] != tid or event.get("cat") != category:
            continue
        begin, end = max(event["ts"], window[0]), min(event["ts"] + event["dur"], window[1])
        if begin < end:
            found.append((begin, end, event["name"]))
    return found


def merge_short(slices, shortest):
    """The same, with neighbours that are too short to be seen made one."""
    merged = []
    for begin, end, name in slices:
        last = merged[-1] if merged else None
        if last and end - begin < shortest and last[1] - last[0] < shortest and begin - last[1] < shortest / 4:
            merged[-1] = (last[0], end, "several operators")
        else:
            merged.append((begin, end, name))
    return merged


class Picture:
    def __init__(self, window):
        self._window = window
        self._parts = []

    def x(self, time_us):
        return LEFT + (time_us - self._window[0]) / (self._window[1] - self._window[0]) * WIDTH

    def box(self, begin, end, y, height, style, title):
        width = max(self.x(end) - self.x(begin), 0.4)
        title = f"<title>{escape(title)}</title>" if width > 4 else ""
        self._parts.append(
            f'<rect x="{self.x(begin):.1f}" y="{y}" width="{width:.1f}" height="{height}" {style}>{title}</rect>'
        )

    def text(self, x, y, text, style=""):
        self._parts.append(f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, style):
        self._parts.append(f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" {style}/>')

    def axis(self, y):
        step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200) if (self._window[1] - self._window[0]) / 1e3 / s <= 12)
        for number in range(int((self._window[1] - self._window[0]) / 1e3 / step) + 1):
            x = self.x(self._window[0] + number * step * 1e3)
            self.line(x, TOP - 6, x, y, 'stroke="#ddd"')
            self.text(x, y + 16, f"{number * step} ms", 'text-anchor="middle" fill="#555"')

    def write(self, path, height):
        style = 'font-family="sans-serif" font-size="12"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" {style}>\n'
            f"<!-- made by docs/pictures/priorities.py -->\n"
            f'<rect width="100%" height="100%" fill="#fff"/>\n'
        )
        path.write_text(head + "\n".join(self._parts) + "\n</svg>\n")


def draw_row(picture, events, tid, window, y, colour):
    """A job is a frame, pale while it was pre-empted; what is full of colour ran."""
    for begin, end, name in clip(events, tid, "job", window):
        picture.box(begin, end, y, ROW, f'fill="{colour}" fill-opacity="0.15" stroke="{colour}"', name)
    operators = merge_short(clip(events, tid, "operator", window), (window[1] - window[0]) / WIDTH * 1.5)
    for index, (begin, end, name) in enumerate(operators):
        opacity = "1" if index % 2 == 0 else "0.7"
        picture.box(begin, end, y + 6, ROW - 12, f'fill="{colour}" fill-opacity="{opacity}"', name)
    for event in events:
        if event["ph"] != "i" or event["tid"] != tid or not event["name"].startswith("pre-empted by DSP_C7-1"):
            continue
        if window[0] < event["ts"] < window[1]:
            x = picture.x(event["ts"])
            picture.line(x, y - 2, x, y - 12, f'stroke="{colour}" stroke-width="1.5"')


def draw(recording, path):
    events = recording["traceEvents"]
    rows = pick_rows(events)
    window = pick_window(events, rows)
    picture = Picture(window)
    bottom = TOP + len(rows) * (ROW + GAP)
    picture.axis(bottom)
    for index, (name, tid) in enumerate(rows):
        y = TOP + index * (ROW + GAP) + 6
        picture.text(8, y + 20, name, 'font-weight="bold"')
        picture.text(8, y + 36, f"{NETWORKS[index][0]}, priority {NETWORKS[index][1]}", 'fill="#555" font-size="11"')
        draw_row(picture, events, tid, window, y, COLOURS[index])
    legend = "full colour: an operator runs · pale: the job is pre-empted, or between operators · stroke above: pre-empted here"
    picture.text(LEFT, 16, legend, 'fill="#555"')
    picture.write(path, bottom + 28)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where the programs are")
    parser.add_argument("--models", type=Path, help="where the networks are; default: BUILD/models")
    parser.add_argument("--keep", type=Path, help="keep the recording here, for ui.perfetto.dev")
    args = parser.parse_args()
    recording = record(args.build.resolve(), args.models or args.build / "models")
    if args.keep:
        args.keep.write_text(json.dumps(recording))
    draw(recording, HERE / "priorities.svg")
    print(f"wrote {HERE / 'priorities.svg'}")


if __name__ == "__main__":
    main()

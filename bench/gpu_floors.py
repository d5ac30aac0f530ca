#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a persistent recurrent kernel can reach on paper: bytes, flop, barriers and expected time of a step.

usage: bench/gpu_floors.py
A step of G gates multiplies the state h [B,H] with R [G*H,H]. Weights stay on the chip where they fit; else each step
reads them from the L2 cache. The kernel is one of two forms:
  cluster   each cluster of SMs holds all of R and computes rows of its own; h travels within the cluster
  grid      all SMs share R; after each step every SM reads all of h from the L2 cache
The time of a step is the sum of its products, of reading h, of its exchanges between SMs, and of the cell itself. A
layer-norm LSTM exchanges twice a step: sums of rows, then h. A training step adds the backward loop,
1.45 times the forward one, and the products over all steps at the rate of large products. Nothing here is measured by
unroll: the rates are data sheets and published measurements (Luo et al. 2024, arXiv 2402.13499 and 2501.12084).
"""

MIB = 1 << 20
SIZES = {"f32": 4, "tf32": 4, "f16": 2}

# tflops: large products. mma: products of a step, clocks on one SM for 16 x 8 x 16 (f32: without tensor cores).
# chip: bytes for weights, of a cluster and of the device. l2: bytes per clock and SM. exchange: clocks.
DEVICES = {
    "H100 SXM": dict(clock=1.755e9, sms=132, tflops={"f32": 60, "tf32": 400, "f16": 700},
                     mma={"f32": 16, "tf32": 3.2, "f16": 1.6}, l2=35, cluster_sms=16, clusters=7,
                     chip={"cluster": 5.5 * MIB, "grid": 44 * MIB}, exchange={"cluster": 280, "grid": 1300}),
    "RTX 4070": dict(clock=2.475e9, sms=46, tflops={"f32": 26, "tf32": 26, "f16": 52},
                     mma={"f32": 16, "tf32": 16, "f16": 8}, l2=13, cluster_sms=0, clusters=0,
                     chip={"grid": 10.3 * MIB}, exchange={"grid": 1600}),
}
CELLS = {"LSTM": (4, 1), "GRU": (3, 1), "layer-norm LSTM": (4, 2)}  # gates, exchanges
WIDTHS, BATCHES, STEPS = (512, 768, 1024), (16, 64, 256), 256
BACKWARD = 1.45
CELL_CLOCKS = 400  # two barriers of a block, sums of partial products, functions


def up(n, multiple):
    return -(-n // multiple) * multiple


def step(device, cell, width, batch, form):
    """Microseconds of a forward step as (time, kind of kernel); the faster kind."""
    size, found = SIZES[form], []
    gates, exchanges = CELLS[cell]
    weights = gates * width * width * size
    for kind, room in device["chip"].items():
        if kind == "cluster" and weights > room:
            continue
        groups = min(device["clusters"], up(batch, 8) // 8) if kind == "cluster" else 1
        sms = device["cluster_sms"] if kind == "cluster" else device["sms"]
        rows = up(-(-batch // groups), 8)
        mma = gates * up(width, 16) / 16 * width / 16 * rows / 8
        clocks = CELL_CLOCKS + exchanges * device["exchange"][kind] + mma / sms * device["mma"][form]
        if kind == "grid":
            clocks += batch * width * size / device["l2"]
            if weights > room:
                clocks += weights / device["sms"] / device["l2"]
        found.append((clocks / device["clock"] * 1e6, kind if weights <= room else "grid, weights from L2"))
    return min(found)


def training_ms(device, cell, width, batch, form):
    """Forward and backward pass of one layer with I = H: loops, then products of inputs and of weight gradients."""
    loop = (1 + BACKWARD) * STEPS * step(device, cell, width, batch, form)[0] / 1e3
    one = 2 * CELLS[cell][0] * width * width * batch * STEPS  # x W^T; as many for dx and the gradients of W and R
    return loop + 4 * one / device["tflops"][form] / 1e9


def main():
    heads = ["cell", "H = I", "B", "format", "R, MiB", "Mflop per step", "exchanges per step"]
    for name in DEVICES:
        heads += [f"{name}: kernel", "µs per forward step", f"ms per training pass, T {STEPS}"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for cell, (gates, exchanges) in CELLS.items():
        for width in WIDTHS:
            for batch in BATCHES:
                for form, size in SIZES.items():
                    row = [cell, width, batch, form, f"{gates * width * width * size / MIB:.1f}",
                           f"{2e-6 * gates * width * width * batch:.0f}", exchanges]
                    for device in DEVICES.values():
                        time, kind = step(device, cell, width, batch, form)
                        row += [kind, f"{time:.1f}", f"{training_ms(device, cell, width, batch, form):.2f}"]
                    print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()

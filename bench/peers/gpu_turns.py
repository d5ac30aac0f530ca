#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training times of one layer on one GPU: `unroll bench` and PyTorch in turns, the most important sizes first.

Usage: gpu_turns.py RESULTS --unroll PROGRAM [--backend cuda] [--seconds 0.4] [--limit 160] [--quick]
Appends a line of JSON to RESULTS for each measurement, and flushes it. Without torch or a device of its own, only
unroll is measured. Times are medians of single runs, forward and backward pass with gradients of all parameters, from
the call until the device is done. In 16 bits PyTorch's parameters and x have 16 bits, too; ours are f32 and rounded in
each run.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

START_SECONDS = 20  # of a process until its first result

# cell, H = I, B, T, precision, options of the backend; the same rows without options are measured in PyTorch.
BUILT_IN = [(cell, 512, 64, 256, precision, "") for precision in ("f16", "f32", "bf16", "tf32")
            for cell in ("lstm", "gru")]
CUSTOM = [(cell, hidden, 16, 1024, precision, form)
          for hidden, precision in ((512, "f32"), (768, "bf16"))
          for cell, forms in (("lnlstm", ("", ":loops=resident", ":loops=whole")), ("lstm", (":loops=resident", "")))
          for form in forms]
# Blocks of a cluster: states in their shared memory or not, and products by warpgroups.
CLUSTERS = [("lstm", hidden, batch, 256, "bf16", ":loops=resident" + how)
            for hidden, batch in ((256, 16), (512, 16), (256, 64), (512, 64))
            for how in ("", ":exchange=global", ":wgmma=true") if hidden == 256 or how != ":wgmma=true"]
MORE = [(cell, hidden, batch, 256, precision, "") for hidden, batch in ((1024, 64), (512, 16), (512, 256))
        for precision in ("f16", "f32", "bf16", "tf32") for cell in ("lstm", "gru")]
FORMS = [(cell, 512, batch, 256, precision, form) for batch in (16, 64, 256) for precision in ("f32", "f16", "bf16")
         for cell, form in (("lstm", ":rnn=own"), ("lstm", ":loops=resident"), ("gru", ":loops=resident"))]
QUICK = [("lstm", 16, 2, 4, "f32", ""), ("lnlstm", 16, 2, 4, "bf16", ":loops=resident"),
         ("lstm", 16, 2, 4, "bf16", ":loops=resident:wgmma=true")]


def ours(o, work):
    cell, hidden, batch, steps, precision, form = work
    command = [o.unroll, "bench", "--backend", o.backend + form, "--mode", "train", "--cell", cell, "--input", hidden,
               "--hidden", hidden, "--batch", batch, "--steps", steps, "--precision", precision, "--seconds", o.seconds,
               "--json"]
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=START_SECONDS + 10 * o.seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": "no result in time"}
    if done.returncode != 0:
        return {"failed": done.stderr.strip()[-300:]}
    return json.loads(done.stdout)


def theirs(torch, o, work):
    """PyTorch's layer; of a layer-norm LSTM, for which it has none, a loop over its operations."""
    cell, hidden, batch, steps, precision, _ = work
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    if cell == "lnlstm":
        from torch_peer import LayerNormLSTM
        layer = LayerNormLSTM(hidden, hidden, True)
    else:
        layer = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell](hidden, hidden)
    layer = layer.to("cuda", dtype)
    x = torch.rand(steps, batch, hidden, device="cuda", dtype=dtype) * 2 - 1

    def once():
        begin = time.perf_counter()
        layer.zero_grad(set_to_none=True)
        layer(x)[0].square().mean().backward()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin)

    times = [once()]  # the first ones choose kernels
    end = time.perf_counter() + o.seconds
    times = [once() for _ in range(2)] if times[0] < 1e3 * o.seconds else times
    while time.perf_counter() < end:
        times.append(once())
    return {"min_ms": min(times), "median_ms": statistics.median(times), "runs": len(times)}


def open_torch():
    try:
        import torch
        torch.zeros(1, device="cuda")
        return torch
    except Exception as why:  # pylint: disable=broad-except  # not there, or no device that it knows
        print(f"PyTorch is not measured: {why}", file=sys.stderr)
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results")
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--limit", type=float, default=160)
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    end = time.monotonic() + o.limit
    torch, failed = open_torch(), 0
    works = QUICK if o.quick else [*BUILT_IN, *CUSTOM, *CLUSTERS, *MORE, *FORMS]
    names = ("cell", "hidden", "batch", "steps", "precision", "form")
    with open(o.results, "a", encoding="utf-8") as file:
        for done, work in enumerate(works):
            if time.monotonic() > end:
                print(f"{len(works) - done} of {len(works)} sizes are not measured: no time left")
                break
            found = [{"by": "unroll", **ours(o, work)}]
            failed += "failed" in found[0]
            if torch and not work[5]:
                try:
                    found.append({"by": f"torch {torch.__version__}", **theirs(torch, o, work)})
                except RuntimeError as why:
                    found.append({"by": "torch", "failed": str(why)[:300]})
            for each in found:
                file.write(json.dumps({**each, **dict(zip(names, work))}) + "\n")
                file.flush()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

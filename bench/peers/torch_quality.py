# SPDX-License-Identifier: Apache-2.0
"""Train the example jobs in PyTorch: the same data, splits, batch sizes, model, optimizer, schedule, number of updates
and model selection as `unroll train`. Initial weights, data order and dropout masks come from PyTorch's own generator.

usage: torch_quality.py RUN/config.toml [--seeds 0 1 2] [--threads 2]

RUN/config.toml is the resolved config of a run folder: it holds every key with the value used. Prints one JSON line per
seed: loss and metrics on the test set, with the parameters that had the lowest validation loss.
"""
import argparse, copy, json, math, pathlib, time, tomllib
import torch, torch.nn as nn

import torch_quality_rows as rows, torch_quality_summaries as summaries, torch_quality_text as text

JOBS = {"language-model": rows.LanguageModel, "classify": rows.Classify, "forecast": rows.Forecast,
        "label": text.Label, "document": text.Document, "translate": text.Translate, "summarize": summaries.Summarize}
OPTIMIZERS = dict(adam=torch.optim.Adam, adamw=torch.optim.AdamW, sgd=torch.optim.SGD)
FOLLOWED = {"schedule": ("constant", "cosine"), "average": ("none",), "optimizer": tuple(OPTIMIZERS)}


def rate(train, update, updates):
    """Learning rate of an update, counted from 1."""
    if update <= train["warmup"]: return train["lr"] * update / train["warmup"]
    if train["schedule"] == "constant": return train["lr"]
    done = min((update - train["warmup"]) / max(updates - train["warmup"], 1), 1.0)
    last = train["final_fraction"]
    return train["lr"] * (last + (1 - last) * 0.5 * (1 + math.cos(math.pi * done)))


def parameter_groups(net, train):
    """Weight decay leaves vectors out, as `unroll train` does."""
    decayed = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() <= 1]
    return [dict(params=decayed, weight_decay=train["weight_decay"]), dict(params=others, weight_decay=0.0)]


def evaluate(job, split):
    job.net.eval()
    with torch.no_grad(): result = job.evaluate(split)
    job.net.train()
    return result


def fit(job, train, updates):
    """Returns the update with the lowest validation loss; the network has its parameters."""
    optimizer = OPTIMIZERS[train["optimizer"]](parameter_groups(job.net, train), lr=train["lr"])
    best, best_update, best_loss = None, 0, math.inf
    job.net.train()
    for update in range(1, updates + 1):
        for group in optimizer.param_groups: group["lr"] = rate(train, update, updates)
        optimizer.zero_grad(set_to_none=True)
        job.loss(update - 1).backward()
        if train["clip_norm"] > 0: nn.utils.clip_grad_norm_(job.net.parameters(), train["clip_norm"])
        optimizer.step()
        if update % train["validate_every"] and update != updates: continue
        loss = evaluate(job, "validation")["loss"]
        if loss < best_loss: best, best_update, best_loss = copy.deepcopy(job.net.state_dict()), update, loss
    job.net.load_state_dict(best)
    return best_update


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("config", type=pathlib.Path)
    a.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    a.add_argument("--threads", type=int, default=2)
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    config = tomllib.loads(a.config.read_text())
    train = config["train"]
    for key, values in FOLLOWED.items():
        if train[key] not in values: raise SystemExit(f"{a.config}: train.{key} = {train[key]!r} is not supported here")
    for seed in a.seeds:
        torch.manual_seed(seed)
        job = JOBS[config["task"]["kind"]](config, a.config.parent / config["data"]["path"])
        updates = train["epochs"] * job.n_batches or train["max_updates"]
        start = time.perf_counter()
        best = fit(job, train, updates)
        row = dict(seed=seed, updates=updates, best_update=best, seconds=round(time.perf_counter() - start, 1))
        print(json.dumps(row | evaluate(job, "test")), flush=True)


main()

# SPDX-License-Identifier: Apache-2.0
"""The example jobs in PyTorch: same data, splits, batches per update, model, optimiser, schedule and number of updates
as docs/examples/*.toml; initial weights and data order from PyTorch's own generator.

usage: torch_quality.py CONFIG.toml [--seeds 0 1 2] [--threads 2]
Prints one JSON line per seed: held-out loss and metric after the last update.
"""
import argparse, csv, json, math, pathlib, time, tomllib
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F

DEFAULTS = {
    "data": dict(held_out=0.1, steps=64, divide=1.0, split_seed=0, column="", window=52, difference=False,
                 validation=0.1, test=0.2),
    "model": dict(cell="lstm", embedding=64, hidden=128, layers=1, bidirectional=False, dropout=0.0),
    "train": dict(batch=32, evaluation_batch=8, optimizer="adam", lr=1e-3, weight_decay=0.0, schedule="constant",
                  warmup=0, final_fraction=0.0, clip_norm=1.0, max_updates=1000, epochs=0),
}
OPTIMIZERS = dict(adam=torch.optim.Adam, adamw=torch.optim.AdamW, sgd=torch.optim.SGD)
CELLS = dict(lstm=nn.LSTM, gru=nn.GRU, rnn=nn.RNN)


def philox(counter, key):
    """Philox4x32-10: the split of the rows must be the same as ours."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def permutation(n, seed):
    order = list(range(n))
    for k, i in enumerate(range(n - 1, 0, -1)):
        if k % 4 == 0: words = philox([k // 4, 0, 0x73687566, 0], [seed & 0xFFFFFFFF, seed >> 32])
        j = (i + 1) * words[k % 4] >> 32
        order[i], order[j] = order[j], order[i]
    return order


class Net(nn.Module):
    """[embedding ->] recurrent layers -> dropout -> linear"""
    def __init__(self, model, width, outputs, vocabulary=0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width) if vocabulary else None
        self.recurrent = CELLS[model["cell"]](width, model["hidden"], model["layers"], bidirectional=model["bidirectional"],
                                              dropout=model["dropout"] if model["layers"] > 1 else 0.0)
        self.drop = nn.Dropout(model["dropout"])
        self.output = nn.Linear(model["hidden"] * (2 if model["bidirectional"] else 1), outputs)
        self.bidirectional = model["bidirectional"]

    def forward(self, x, state=None):
        y, state = self.recurrent(self.embedding(x) if self.embedding else x, state)
        return y, state

    def last(self, x):
        y, _ = self(x)
        h = y.shape[2] // 2
        return self.output(self.drop(torch.cat([y[-1, :, :h], y[0, :, h:]], 1) if self.bidirectional else y[-1]))


def train(net, c, next_loss, updates):
    t = c["train"]
    optimizer = OPTIMIZERS[t["optimizer"]](net.parameters(), lr=t["lr"], weight_decay=t["weight_decay"])
    net.train()
    for update in range(1, updates + 1):
        lr = t["lr"]
        if update <= t["warmup"]: lr *= update / t["warmup"]
        elif t["schedule"] == "cosine":
            done = min((update - t["warmup"]) / max(updates - t["warmup"], 1), 1.0)
            lr *= t["final_fraction"] + (1 - t["final_fraction"]) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups: group["lr"] = lr
        optimizer.zero_grad(set_to_none=True)
        next_loss(update - 1).backward()
        if t["clip_norm"] > 0: nn.utils.clip_grad_norm_(net.parameters(), t["clip_norm"])
        optimizer.step()
    net.eval()


def ceil_part(n, part): return math.ceil(n * part)


def streams(ids, batch):
    per = (len(ids) - 1) // batch
    x = torch.stack([ids[b * per:b * per + per] for b in range(batch)], 1)
    y = torch.stack([ids[b * per + 1:b * per + per + 1] for b in range(batch)], 1)
    return x, y


def language_model(c, path):
    text = path.read_text()
    cut = len(text) - ceil_part(len(text), c["data"]["held_out"])
    vocabulary = sorted(set(text[:cut]))
    index = {ch: i for i, ch in enumerate(vocabulary)}
    ids = torch.tensor([index.get(ch, 0) for ch in text])
    size, T = len(vocabulary), c["data"]["steps"]
    x, y = streams(ids[:cut], c["train"]["batch"])
    ex, ey = streams(ids[cut:], c["train"]["evaluation_batch"])
    n = x.shape[0] // T
    net, state = Net(c["model"], c["model"]["embedding"], size, size), None

    def loss(u):
        nonlocal state
        i = u % n * T
        if u % n == 0: state = None
        h, state = net(x[i:i + T], state)
        state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
        return F.cross_entropy(net.output(net.drop(h)).flatten(0, 1), y[i:i + T].flatten())

    def held_out():
        total, count, s = 0.0, 0, None
        for i in range(0, ex.shape[0], T):
            h, s = net(ex[i:i + T], s)
            part = ey[i:i + T].flatten()
            total += F.cross_entropy(net.output(h).flatten(0, 1), part, reduction="sum").item()
            count += part.numel()
        return dict(loss=total / count, bits_per_character=total / count / math.log(2))
    return net, loss, held_out, n


def shuffled(net, c, x, y, criterion):
    batch, order = c["train"]["batch"], None
    n = (x.shape[1] + batch - 1) // batch

    def loss(u):
        nonlocal order
        if u % n == 0: order = torch.randperm(x.shape[1])
        rows = order[u % n * batch:(u % n + 1) * batch]
        return criterion(net.last(x[:, rows]), y[rows])
    return loss, n


def classify(c, path):
    table = np.array([[float(v) for v in row] for row in csv.reader(path.open()) if row and row[0].replace(".", "").isdigit()], np.float32)
    d = c["data"]
    x = torch.tensor(table[:, :-1] / d["divide"]).reshape(len(table), d["steps"], -1).transpose(0, 1).contiguous()
    y = torch.tensor(table[:, -1]).long()
    held = ceil_part(len(table), d["held_out"])
    order = permutation(len(table), d["split_seed"])
    test, rest = torch.tensor(sorted(order[:held])), torch.tensor(sorted(order[held:]))
    net = Net(c["model"], x.shape[2], int(y.max()) + 1)
    loss, n = shuffled(net, c, x[:, rest], y[rest], F.cross_entropy)

    def held_out():
        logits = net.last(x[:, test])
        return dict(loss=F.cross_entropy(logits, y[test]).item(), accuracy=(logits.argmax(1) == y[test]).float().mean().item())
    return net, loss, held_out, n


def forecast(c, path):
    rows = list(csv.reader(path.open()))
    d = c["data"]
    column = rows[0].index(d["column"]) if d["column"] else len(rows[0]) - 1
    raw = [float(r[column]) if r[column].strip() and r[column].lower() != "nan" else math.nan for r in rows[1:] if r]
    known = [not math.isnan(v) for v in raw]
    level = []
    for v in raw: level.append(v if not math.isnan(v) else (level[-1] if level else next(w for w in raw if not math.isnan(w))))
    n = len(level)
    test = n - ceil_part(n, d["test"])
    validation = test - ceil_part(n, d["validation"])
    first = 1 if d["difference"] else 0
    values = np.array(level)
    if first: values = np.concatenate([[0.0], np.diff(values)])
    fit = values[first:validation]
    mean, deviation = fit.mean(), fit.std()
    z, W = torch.tensor((values - mean) / deviation, dtype=torch.float32), d["window"]

    def targets(a, b): return [t for t in range(max(a, W + first), b) if known[t]]

    def windows(ts): return torch.stack([z[t - W:t] for t in ts], 1).unsqueeze(2), torch.stack([z[t] for t in ts]).unsqueeze(1)
    x, y = windows(targets(0, validation))
    tx, ty = windows(targets(test, n))
    net = Net(c["model"], 1, 1)
    loss, per_epoch = shuffled(net, c, x, y, F.mse_loss)

    def held_out():
        error = net.last(tx) - ty
        return dict(loss=error.square().mean().item(), mae=error.abs().mean().item() * deviation)
    return net, loss, held_out, per_epoch


JOBS = {"language-model": language_model, "classify": classify, "forecast": forecast}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("config", type=pathlib.Path)
    a.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    a.add_argument("--threads", type=int, default=2)
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    given = tomllib.loads(a.config.read_text())
    c = {s: {**DEFAULTS[s], **given.get(s, {})} for s in DEFAULTS}
    for seed in a.seeds:
        torch.manual_seed(seed)
        net, loss, held_out, per_epoch = JOBS[given["task"]["kind"]](c, a.config.parent / given["data"]["path"])
        updates = c["train"]["epochs"] * per_epoch or c["train"]["max_updates"]
        start = time.perf_counter()
        train(net, c, loss, updates)
        with torch.no_grad():
            print(json.dumps(dict(seed=seed, updates=updates, seconds=round(time.perf_counter() - start, 1), **held_out())), flush=True)


main()

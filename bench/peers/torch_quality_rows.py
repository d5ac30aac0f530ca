# SPDX-License-Identifier: Apache-2.0
"""Jobs of torch_quality.py on text streams, rows and series. Each job has `net`, `n_batches` of an epoch,
loss(update) and evaluate(split)."""
import csv, math
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F

CELLS = dict(lstm=nn.LSTM, gru=nn.GRU, rnn=nn.RNN)


def philox(counter, key):
    """Philox4x32-10: the split of the rows must be the same as that of `unroll`."""
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


def sizes(n, data): return math.ceil(n * data["validation"]), math.ceil(n * data["test"])


def random_splits(n, data):
    order, (validation, test) = permutation(n, data["split_seed"]), sizes(n, data)
    return dict(test=sorted(order[:test]), validation=sorted(order[test:test + validation]),
                train=sorted(order[test + validation:]))


def recurrent(model, width, bidirectional=None):
    both = model.get("bidirectional", False) if bidirectional is None else bidirectional
    return CELLS[model["cell"]](width, model["hidden"], model["layers"], bidirectional=both,
                                dropout=model["dropout"] if model["layers"] > 1 else 0.0)


def final_output(y):
    """y [T,B,D*H], two directions -> the last output of each [B,2H]."""
    half = y.shape[2] // 2
    return torch.cat([y[-1, :, :half], y[0, :, half:]], 1)


class LanguageModel:
    def __init__(self, config, path):
        data, model, train = (config[k] for k in ("data", "model", "train"))
        content = path.read_text()
        validation, test = sizes(len(content), data)
        end = len(content) - test
        begin = end - validation
        vocabulary = sorted(set(content[:begin]))
        index = {ch: i for i, ch in enumerate(vocabulary)}
        ids = torch.tensor([index.get(ch, 0) for ch in content])
        self.steps, size = data["steps"], len(vocabulary)
        self.x, self.y = self.streams(ids[:begin], train["batch"])
        self.parts = {split: self.streams(part, train["evaluation_batch"])
                      for split, part in dict(validation=ids[begin:end], test=ids[end:]).items()}
        self.n_batches = self.x.shape[0] // self.steps
        self.net = nn.ModuleDict(dict(embedding=nn.Embedding(size, model["embedding"]),
                                      recurrent=recurrent(model, model["embedding"]), drop=nn.Dropout(model["dropout"]),
                                      output=nn.Linear(model["hidden"], size)))

    @staticmethod
    def streams(ids, batch):
        per = (len(ids) - 1) // batch
        x = torch.stack([ids[b * per:b * per + per] for b in range(batch)], 1)
        y = torch.stack([ids[b * per + 1:b * per + per + 1] for b in range(batch)], 1)
        return x, y

    def logits(self, x, state):
        h, state = self.net["recurrent"](self.net["embedding"](x), state)
        return self.net["output"](self.net["drop"](h)).flatten(0, 1), state

    def loss(self, update):
        at = update % self.n_batches * self.steps
        if at == 0: self.state = None
        logits, state = self.logits(self.x[at:at + self.steps], self.state)
        self.state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
        return F.cross_entropy(logits, self.y[at:at + self.steps].flatten())

    def evaluate(self, split):
        x, y = self.parts[split]
        total, count, state = 0.0, 0, None
        for at in range(0, x.shape[0], self.steps):
            logits, state = self.logits(x[at:at + self.steps], state)
            labels = y[at:at + self.steps].flatten()
            total += F.cross_entropy(logits, labels, reduction="sum").item()
            count += labels.numel()
        return dict(loss=total / count, bits_per_character=total / count / math.log(2))


class Shuffled:
    """Rows drawn anew each epoch; self.x [T,N,I] and self.targets of the training set, row by row."""
    def rows_of(self, update):
        at = update % self.n_batches
        if at == 0: self.order = torch.randperm(self.x.shape[1])
        return self.order[at * self.batch:(at + 1) * self.batch]

    def begin(self, x, batch):
        self.x, self.batch, self.n_batches = x, batch, math.ceil(x.shape[1] / batch)

    def pooled_network(self, model, width, outputs):
        assert model.get("pooling", "final") == "final", "only model.pooling = final is supported here"
        hidden = model["hidden"] * (2 if model["bidirectional"] else 1)
        self.net = nn.ModuleDict(dict(recurrent=recurrent(model, width), drop=nn.Dropout(model["dropout"]),
                                      output=nn.Linear(hidden, outputs)))
        self.both = model["bidirectional"]

    def predict(self, x):
        y, _ = self.net["recurrent"](x)
        return self.net["output"](self.net["drop"](final_output(y) if self.both else y[-1]))


class Classify(Shuffled):
    def __init__(self, config, path):
        data, model = config["data"], config["model"]
        table = [row for row in csv.reader(path.open()) if row and row[0].replace(".", "").isdigit()]
        table = np.array(table, np.float32)
        x = torch.tensor(table[:, :-1] / data["divide"]).reshape(len(table), data["steps"], -1).transpose(0, 1)
        y = torch.tensor(table[:, -1]).long()
        self.parts = {split: (x[:, rows].contiguous(), y[rows]) for split, rows in random_splits(len(y), data).items()}
        self.pooled_network(model, x.shape[2], int(y.max()) + 1)
        self.begin(self.parts["train"][0], config["train"]["batch"])

    def loss(self, update):
        rows = self.rows_of(update)
        return F.cross_entropy(self.predict(self.x[:, rows]), self.parts["train"][1][rows])

    def evaluate(self, split):
        x, y = self.parts[split]
        logits = self.predict(x)
        return dict(loss=F.cross_entropy(logits, y).item(), accuracy=(logits.argmax(1) == y).float().mean().item())


class Forecast(Shuffled):
    """S series, H values ahead of a window of W values."""
    def __init__(self, config, path):
        data, model = config["data"], config["model"]
        self.W, self.H, self.first = data["window"], data["horizon"], int(data["difference"] == "first")
        raw = self.columns(path, data)                                       # [n,S], NaN where missing
        self.known, self.level = ~np.isnan(raw), self.filled(raw)
        n = len(raw)
        validation, test = sizes(n, data)
        end = n - test
        self.train_end = end - validation
        windows = dict(train=self.targets(0, self.train_end), validation=self.targets(self.train_end, end),
                       test=self.targets(end, n))
        self.fit_scales(windows["train"])
        if data["stride"] > 1: windows["train"] = windows["train"][::data["stride"]]
        self.parts = {split: self.examples(ts) for split, ts in windows.items()}
        self.seasonal = np.array([self.seasonal_error(s, data["period"]) for s in range(raw.shape[1])])
        self.pooled_network(model, raw.shape[1], self.H * raw.shape[1])
        self.begin(self.parts["train"][0], config["train"]["batch"])

    @staticmethod
    def columns(path, data):
        lines = [row for row in csv.reader(path.open()) if row]
        names = data["columns"] or [data["column"] or lines[0][-1]]
        at = [lines[0].index(name) for name in names]
        number = lambda cell: float(cell) if cell.strip() not in ("", "NA", "NaN", "nan") else math.nan
        raw = np.array([[number(row[c]) for c in at] for row in lines[1:]])
        return raw[np.argmax(~np.isnan(raw), axis=0).max():]                # where every series has begun

    @staticmethod
    def filled(raw):
        level = raw.copy()
        for t in range(1, len(level)): level[t] = np.where(np.isnan(level[t]), level[t - 1], level[t])
        return level

    def targets(self, begin, end):
        first = max(begin, self.W + self.first)
        return [t for t in range(first, end - self.H + 1) if self.known[t:t + self.H].any()]

    def target(self, t, h): return self.level[t + h] - self.level[t - 1] if self.first else self.level[t + h]

    def values(self): return np.diff(self.level, axis=0, prepend=self.level[:1]) if self.first else self.level

    def fit_scales(self, train):
        fit = self.values()[self.first:self.train_end]
        scales = [(fit.mean(0), fit.std(0))] * self.H
        if self.first:
            for h in range(1, self.H):
                changes = np.array([self.target(t, h) for t in train])
                scales[h] = (changes.mean(0), changes.std(0))
        self.mean, self.deviation = (np.array([s[k] for s in scales]) for k in (0, 1))  # [H,S]

    def examples(self, ts):
        """x [W,N,S], target [N,H*S], observed [N,H*S]"""
        z = (self.values() - self.mean[0]) / self.deviation[0]
        x = torch.tensor(np.stack([z[t - self.W:t] for t in ts], 1), dtype=torch.float32)
        y = np.stack([[(self.target(t, h) - self.mean[h]) / self.deviation[h] for h in range(self.H)] for t in ts])
        seen = np.stack([self.known[t:t + self.H] for t in ts])
        flat = lambda a: torch.tensor(a.reshape(len(ts), -1), dtype=torch.float32)
        return x, flat(y), flat(seen)

    def seasonal_error(self, s, period):
        change = np.abs(self.level[period:self.train_end, s] - self.level[:self.train_end - period, s])
        return change[self.known[period:self.train_end, s]].mean()

    def loss(self, update):
        rows = self.rows_of(update)
        _, y, seen = self.parts["train"]
        return ((self.predict(self.x[:, rows]) - y[rows]).square() * seen[rows]).sum() / seen[rows].sum()

    def evaluate(self, split):
        x, y, seen = self.parts[split]
        error, count = self.predict(x) - y, seen.sum()
        absolute = error.abs() * seen * torch.tensor(self.deviation.reshape(-1))
        season = torch.tensor(np.tile(self.seasonal, self.H))
        return dict(loss=((error.square() * seen).sum() / count).item(), mae=(absolute.sum() / count).item(),
                    mase=((absolute / season).sum() / count).item())

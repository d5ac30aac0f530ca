# SPDX-License-Identifier: Apache-2.0
"""Job of torch_quality.py on texts and their summaries: the pointer-generator network (See, Liu, Manning 2017), with
the parameters of `unroll` under the same names, its vocabulary, its batches, and its beam search.
Shapes: B sources, K hypotheses of each, S source steps, T target steps, V words with the end, M width of the memory."""
import collections, gzip, json, math, re
import torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from torch_quality_rows import recurrent
from torch_quality_text import PADDING, Rows, dropped, run_packed, vocabulary

LOW, TINY, NO_SOURCE = -1e30, 1e-30, -2
LETTER = r"[A-Za-z\x80-\U0010ffff]"
PIECE = re.compile(rf" ?(?:{LETTER}(?:{LETTER}|'(?={LETTER}))*|[0-9]+|\S)|\s")
LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def log_add(a, b):
    top = torch.maximum(a, b).detach()
    return top + torch.log(torch.exp(a - top) + torch.exp(b - top))


class Weights(nn.Module):
    """One weight, and a bias where it has one, under the names of `unroll`."""
    def __init__(self, **tensors):
        super().__init__()
        for name, tensor in tensors.items(): setattr(self, name, nn.Parameter(tensor))


def xavier(*shape): return nn.init.xavier_uniform_(torch.empty(shape))


class Network(nn.Module):
    def __init__(self, model, words):
        super().__init__()
        assert model["shared_embedding"] and model["chunk"] == 0 and model["weight_drop"] == 0
        self.model, self.V = model, words
        E, H, lstm = model["embedding"], model["hidden"], model["cell"] == "lstm"
        D = 2 if model["bidirectional"] else 1
        M, width = D * H, E if model["tied"] else H
        table = torch.empty(words, E)
        self.embedding = Weights(weight=table.uniform_(-0.1, 0.1) if model["tied"] else table.normal_())
        self.encoder = recurrent(model, E)
        self.bridge = nn.ModuleList(nn.Linear(M, H) for _ in range(2 if lstm else 1))
        self.attention = Weights(v=torch.empty(H).normal_(std=0.1))
        self.attention.memory = nn.Linear(M, H, bias=False)
        self.attention.query = Weights(weight=xavier(H, H), bias=torch.zeros(H))
        if model["coverage"]: self.attention.coverage = nn.Parameter(torch.empty(H).normal_(std=0.1))
        self.decoder = (nn.LSTM if lstm else nn.GRU)(E + M, H)
        self.cell = (nn.LSTMCell if lstm else nn.GRUCell)(E + M, H)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):  # the parameters of `decoder`, by their names
            delattr(self.cell, name)
            setattr(self.cell, name, getattr(self.decoder, name + "_l0"))
        self.combine = Weights(weight=xavier(width, H + M), bias=torch.zeros(width))
        if model["pointer"]: self.switch = Weights(weight=xavier(1, M + H + E), bias=torch.zeros(1))
        self.output = Weights(**({} if model["tied"] else dict(weight=xavier(words, width))), bias=torch.zeros(words))

    def load_unroll(self, path):
        """The parameters of a checkpoint of `unroll`: safetensors, f32."""
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            content = bytearray(file.read())
        with torch.no_grad():
            for name, parameter in self.named_parameters():  # those of `cell` are those of `decoder`
                begin, end = header[name]["data_offsets"]
                parameter.copy_(torch.frombuffer(content[begin:end], dtype=torch.float32).view_as(parameter))

    def embed(self, ids): return dropped(F.embedding(ids, self.embedding.weight), self.model, self.training)

    def encode(self, ids, lengths):
        y, state = run_packed(self.encoder, self.embed(ids), lengths)
        ends = [torch.cat(list(s[-2 if self.model["bidirectional"] else -1:]), 1)
                for s in (state if isinstance(state, tuple) else (state,))]
        memory = y.transpose(0, 1)                                                                # [B,S,M]
        states = [F.relu(bridge(end)) for bridge, end in zip(self.bridge, ends)]
        live = torch.arange(memory.shape[1])[None] < lengths[:, None]
        states.append(memory.new_zeros(memory.shape[0], memory.shape[2]))                          # the context
        if self.model["coverage"]: states.append(memory.new_zeros(live.shape))
        return dict(values=memory, keys=self.attention.memory(memory), live=live), states

    def step(self, x, states, memory):
        """x [B*K,E] -> next states, output, context, attention, coverage before this step"""
        B, S, A = memory["keys"].shape
        K, n = x.shape[0] // B, 2 if self.model["cell"] == "lstm" else 1
        inner = tuple(states[:2]) if n == 2 else states[0]
        new = self.cell(torch.cat([x, states[n]], 1), inner)
        new = list(new) if n == 2 else [new]
        h, attention = new[0], self.attention
        features = F.linear(h, attention.query.weight, attention.query.bias).view(B, K, 1, A) + memory["keys"][:, None]
        covered = states[n + 1] if self.model["coverage"] else None
        if covered is not None: features = features + covered.view(B, K, S, 1) * attention.coverage
        score = (torch.tanh(features) @ attention.v).masked_fill(~memory["live"][:, None], LOW)
        weights = torch.softmax(score, 2)
        context, a = (weights @ memory["values"]).view(B * K, -1), weights.view(B * K, S)
        return new + [context] + ([] if covered is None else [covered + a]), h, context, a, covered

    def written(self, h, context, x, keep=None):
        combined = F.linear(torch.cat([h, context], -1), self.combine.weight, self.combine.bias)
        if keep is not None: combined = combined * keep
        weight = self.embedding.weight if self.model["tied"] else self.output.weight
        switched = None
        if self.model["pointer"]:
            switched = F.linear(torch.cat([context, h, x], -1), self.switch.weight, self.switch.bias).squeeze(-1)
        return F.linear(combined, weight, self.output.bias), switched

    def nats(self, source, lengths, copies, before, labels):
        """Sums of -log P(label), of the coverage loss and of the mean -log P over all words."""
        memory, states = self.encode(source, lengths)
        x = self.embed(before)                                                                    # [T,B,E]
        steps = []
        for t in range(before.shape[0]):
            states, *seen = self.step(x[t], states, memory)
            steps.append(seen)
        h, context, a = (torch.stack(part) for part in list(zip(*steps))[:3])
        keep = None
        if self.training and self.model["dropout"] > 0:
            width = self.combine.weight.shape[0]
            keep = dropped(x.new_ones(*x.shape[:2], width), self.model, True)
        logits, z = self.written(h, context, x, keep)
        real, log_words = labels >= 0, F.log_softmax(logits, -1)
        inside = labels < self.V
        log_p = log_words.gather(2, labels.clamp(0, self.V - 1)[..., None]).squeeze(2)
        if self.model["pointer"]:
            here = copies[None] == labels[..., None]                                              # [T,B,S]
            mass = (a * here).sum(2)
            low = torch.full_like(z, LOW)
            log_p = log_add(torch.where(inside, F.logsigmoid(z) + log_p, low),
                            torch.where(here.any(2), F.logsigmoid(-z) + torch.log(mass.clamp(min=TINY)), low))
        coverage = 0.0
        if self.model["coverage"]:
            coverage = (torch.minimum(a, torch.stack([s[3] for s in steps])).sum(2) * real).sum()
        return -(log_p * real).sum(), coverage, -(log_words.mean(2) * real).sum()

    def beam(self, sources, beam, longest, end, unknown):
        """Best hypothesis of each source (ids, copies): log P of eq. 9; of twice `beam` candidates, those that end
        within the first `beam` are kept; a search ends with `beam` of them, none of the live ones likelier, or at
        the longest text."""
        B, K, V = len(sources), beam, self.V
        lengths = torch.tensor([len(ids) for ids, _ in sources])
        ids = pad_sequence([torch.tensor(ids) for ids, _ in sources])
        S = ids.shape[0]
        copies = pad_sequence([torch.tensor(c) for _, c in sources], batch_first=True, padding_value=0)
        extended = max(V, int(copies.max()) + 1)
        memory, states = self.encode(ids, lengths)
        states = [s.repeat_interleave(K, 0) for s in states]
        copies = copies.repeat_interleave(K, 0)
        scores = torch.full((B, K), -math.inf)
        scores[:, 0] = 0
        read, texts = torch.full((B * K,), end), torch.zeros(B, K, 0, dtype=torch.long)
        finished = [[] for _ in range(B)]
        live = torch.ones(B, dtype=torch.bool)
        for length in range(longest):
            x = self.embed(read)
            states, h, context, a, _ = self.step(x, states, memory)
            logits, z = self.written(h, context, x)
            p = torch.softmax(logits, 1)
            if self.model["pointer"]:
                gate = torch.sigmoid(z)[:, None]
                p = F.pad(gate * p, (0, extended - V)).scatter_add(1, copies, (1 - gate) * a)
            logs = torch.log(p)
            logs[:, unknown] = -math.inf
            best, at = (scores.view(B * K, 1) + logs).view(B, -1).topk(2 * K, 1)
            lane, token = at // logs.shape[1], at % logs.shape[1]
            ended = token == end
            for b, rank in (ended[:, :K] & live[:, None] & best[:, :K].isfinite()).nonzero().tolist():
                finished[b].append((best[b, rank].item(), texts[b, lane[b, rank]].tolist()))
            order = torch.argsort(ended.long(), dim=1, stable=True)[:, :K]  # the first K that go on
            scores, lane, token = best.gather(1, order), lane.gather(1, order), token.gather(1, order)
            texts = torch.cat([texts.gather(1, lane[..., None].expand(-1, -1, texts.shape[2])), token[..., None]], 2)
            rows = (lane + torch.arange(B)[:, None] * K).view(-1)
            states = [s[rows] for s in states]
            live = torch.tensor([len(f) < K or max(f)[0] < scores[b, 0].item() for b, f in enumerate(finished)])
            if not live.any(): break
            read = torch.where(token < V, token, unknown).view(-1)
        for b in range(B):
            if not finished[b]: finished[b] = list(zip(scores[b].tolist(), texts[b].tolist()))
        return [max(f, key=lambda one: one[0])[1] for f in finished]


def opened(path):
    with open(path, "rb") as file: packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8") if packed else open(path, encoding="utf-8")


class Summarize(Rows):
    BEAM, TOGETHER = 1, 32  # sources that are decoded together

    def __init__(self, config, path):
        self.data, self.model, train = config["data"], config["model"], config["train"]
        data = self.data
        assert data["tokens"] == "words" and train.get("scheduled_sampling", 0) == 0
        columns = [int(data[key]) - 1 for key in ("split", "source", "target")]
        rows = collections.defaultdict(list)
        for line in opened(path):
            cells = line.rstrip("\n").split("\t")
            split, source, target = (cells[c] for c in columns)
            rows[split].append((source, target))
        counts = collections.Counter(p for pair in rows["train"] for text in pair for p in self.pieces(text))
        self.words = vocabulary(counts, data["min_count"], data["vocabulary"] - 1)
        self.unknown, self.end = len(self.words), len(self.words) + 1
        self.texts, self.names = dict(rows), list(self.words)
        self.parts = {split: [self.coded(*pair) for pair in pairs] for split, pairs in rows.items()}
        self.lengths = [(len(row[0]), len(row[2]) + 1) for row in self.parts["train"]]
        self.batch, self.smoothing = train["batch"], train["label_smoothing"]
        self.coverage_weight = train["coverage_weight"]
        assert train["batch_tokens"] == 0
        self.n_batches = math.ceil(len(self.lengths) / self.batch)
        self.net = Network(self.model, self.end + 1)

    def pieces(self, text):
        return PIECE.findall(" " + (text.translate(LOWER) if self.data["lowercase"] else text))

    def coded(self, source, target):
        """Ids, copies and target of a pair, and the unknown words of its source."""
        ids, copies, unknown = [], [], {}
        for piece in self.pieces(source)[:self.data["source_tokens"]]:
            ids.append(self.words.get(piece, self.unknown))
            copies.append(ids[-1] if ids[-1] != self.unknown
                          else self.end + 1 + unknown.setdefault(piece, len(unknown)))
        named = unknown if self.model["pointer"] else {}
        to = [self.words.get(p, self.end + 1 + named[p] if p in named else self.unknown)
              for p in self.pieces(target)[:self.data["target_tokens"]]]
        return ids, copies, to, list(unknown)

    def sums(self, rows):
        known = lambda id: id if id <= self.end else self.unknown
        end = [self.end]
        return self.net.nats(
            pad_sequence([torch.tensor(r[0]) for r in rows]), torch.tensor([len(r[0]) for r in rows]),
            pad_sequence([torch.tensor(r[1]) for r in rows], batch_first=True, padding_value=NO_SOURCE),
            pad_sequence([torch.tensor(end + [known(i) for i in r[2]]) for r in rows], padding_value=self.end),
            pad_sequence([torch.tensor(r[2] + end) for r in rows], padding_value=PADDING)), sum(
                len(r[2]) + 1 for r in rows)

    def batch_loss(self, rows):
        (nats, coverage, even), count = self.sums(rows)
        return (nats * (1 - self.smoothing) + even * self.smoothing + coverage * self.coverage_weight) / count

    def text(self, ids, unknown):
        return "".join(self.names[i] if i < self.unknown else unknown[i - self.end - 1] for i in ids).strip()

    def decode(self, rows, beam):
        """Rows sorted by length are decoded together; texts in the order of the rows."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
        texts = [""] * len(rows)
        for first in range(0, len(order), self.TOGETHER):
            part = order[first:first + self.TOGETHER]
            found = self.net.beam([rows[i][:2] for i in part], beam, self.data["target_tokens"], self.end, self.unknown)
            for i, ids in zip(part, found): texts[i] = self.text(ids, rows[i][3])
        return texts

    def evaluate(self, split):
        from rouge_score import rouge_scorer
        sums, count = [0.0, 0.0], 0
        for rows in self.slices(split):
            (nats, coverage, _), n = self.sums(rows)
            sums, count = [sums[0] + float(nats), sums[1] + float(coverage)], count + n
        result = dict(loss=(sums[0] + self.coverage_weight * sums[1]) / count)
        if split != "test": return result
        scorer, kinds = None, ["rouge1", "rouge2", "rougeL"]
        scorer = rouge_scorer.RougeScorer(kinds, use_stemmer=True)
        for beam in (1, 4):
            scores = [scorer.score(target, text)
                      for (_, target), text in zip(self.texts[split], self.decode(self.parts[split], beam))]
            result |= {f"{k}.beam{beam}": sum(s[k].fmeasure for s in scores) / len(scores) for k in kinds}
        return result

# SPDX-License-Identifier: Apache-2.0
# The configs and data that check_mpi.py trains with several numbers of ranks.
import json
import struct

# Of 12 batches some of 8 ranks have two. Clipping, dropout and averaging act in every update.
CONFIG = """
[task]
kind = "{kind}"
[data]
path = "{data}"
{of_data}
[model]
hidden = 12
dropout = 0.2
{of_model}
[train]
batch = {batch}
accumulate = 12
precision = "{precision}"
loss_scale_every = 20
lr = 0.01
clip_norm = 0.2
average = "ema"
average_decay = 0.9
average_start = 2
max_updates = 50
validate_every = 35
checkpoint_every = 20
log_every = 7
[run]
threads = 1
rank_timeout = {timeout}
"""
LOSS_SCALE = 65536  # before the first update
WORDS = [f"w{i * i % 23}" for i in range(40)]


def lines():
    return "".join(f"line {i} of a text, {i * i % 97}\n" for i in range(600))


def labeled_lines():
    """Of 1 to 9 words."""
    return "label,text\n" + "".join(
        f"{'odd' if i % 2 else 'even'},{' '.join(WORDS[i % 7:i % 7 + 1 + i * 5 % 9])}\n" for i in range(500))


def pairs():
    return "".join(f"{i * 37 % 9973}\t{str(i * 37 % 9973)[::-1]}\n" for i in range(1, 800))


def rows():
    """One cell is infinite in f16: the gradient of its batch overflows, once an epoch."""
    cells = [[i % 5 + (t if i % 2 else -t) for t in range(6)] + [i % 2] for i in range(230)]
    cells[101][2] = 1e6  # in the training set
    return "".join(",".join(map(str, row)) + "\n" for row in cells)


# The kind, the data and what its config has besides. Documents and pairs have lengths.
TASKS = {
    "language model": ("language-model", lines, "steps = 8\nshards = 12", "embedding = 6", 2),
    "document": ("document", labeled_lines, 'label = "label"\ntext = "text"', "embedding = 6", 4),
    "translate": ("translate", pairs, "", "embedding = 6", 5),
    "classify": ("classify", rows, "steps = 6\ndivide = 4", "", 3),
}
CASES = [(task, precision) for task in ("language model", "document", "translate") for precision in ("f32", "bf16")]
CASES.append(("classify", "f16"))
# Of the test run, with so many ranks.
FEW_CASES = {("language model", "f32"): 2, ("document", "bf16"): 3, ("translate", "f32"): 2, ("classify", "f16"): 3}


def write_case(folder, task, precision, timeout):
    """The config of a case."""
    kind, make, of_data, of_model, batch = TASKS[task]
    data = folder / f"{task}.txt"
    data.write_text(make())
    config = folder / f"{task} {precision}.toml"
    config.write_text(CONFIG.format(kind=kind, data=data, of_data=of_data, of_model=of_model, batch=batch,
                                    precision=precision, timeout=timeout))
    return config


def scalar(checkpoint, name):
    """An f32 tensor of one element in a safetensors file."""
    content = checkpoint.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    begin, _ = json.loads(content[8:8 + size])[name]["data_offsets"]
    return struct.unpack_from("<f", content, 8 + size + begin)[0]

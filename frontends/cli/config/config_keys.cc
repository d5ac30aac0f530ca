// SPDX-License-Identifier: Apache-2.0
// The config schema: every key with its default, range and meaning. Other keys are refused.
#include "frontends/cli/config/config_schema.h"
#include "unroll/tasks.h"
#include "unroll/trainer.h"

namespace unroll::cli {
namespace {

constexpr double k_int_max = 2147483646;
constexpr Allowed between(double lowest, double highest) { return {lowest, highest, {}}; }
constexpr Allowed from(double lowest) { return {lowest, k_unbounded, {}}; }
constexpr Allowed one_of(std::string_view words) { return {0, 0, words}; }
constexpr Allowed any{};
constexpr auto k_bool = KeyType::boolean;
constexpr auto k_int = KeyType::integer;
constexpr auto k_num = KeyType::number;
constexpr auto k_text = KeyType::text;
constexpr auto k_texts = KeyType::texts;
constexpr auto k_fixed = AtResume::fixed;
constexpr auto k_free = AtResume::free;
constexpr auto k_free_file = AtResume::free_file;

// Of the options of tasks: read by those that have one of the fields.
template <class... More>
constexpr KeySpec key(std::string_view path, Allowed allowed, std::string_view doc, AtResume at_resume, Field field,
                      More... more) {
  return {path, {}, allowed, (field.readers | ... | more.readers), doc, at_resume, Fields{field, more...}};
}
// Of other options.
constexpr KeySpec key(std::string_view path, Allowed allowed, unsigned uses, std::string_view doc, AtResume at_resume,
                      Field field) {
  return {path, {}, allowed, uses, doc, at_resume, Fields{field}};
}
constexpr KeySpec key(std::string_view path, std::string_view fallback, Allowed allowed, unsigned uses,
                      std::string_view doc, AtResume at_resume, Field field) {
  return {path, fallback, allowed, uses, doc, at_resume, Fields{field}};
}
using Trainer = TrainerOptions;
using LanguageModel = LanguageModelOptions;
using Forecast = ForecastOptions;
using Classify = ClassifyOptions;
using TableRows = TableRowsOptions;
using TextRows = TextRowsOptions;
using Regress = RegressOptions;
using Label = LabelOptions;
using Document = DocumentOptions;
using Translate = TranslateOptions;
using Summarize = SummarizeOptions;
using Sampling = SamplingOptions;
using Decoder = DecoderOptions;
using Optimizer = OptimizerOptions;
using Schedule = ScheduleOptions;
using Clip = ClipOptions;
using Averaging = AverageOptions;
using LossScale = LossScaleOptions;
using ModelOptions = RecurrentModelOptions;

// "language-model|forecast|...|"
constexpr std::string_view k_task_words =
#define UNROLL_TASK(name, Title, word) word "|"
    UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
    ;

// A key of the library: path, [default where it is not that of the field,] allowed values, [read by, where the fields
// do not say it,] meaning, whether a resumed run may change it, fields. Another key: path, type, default, allowed
// values, read by, meaning, [the same].
constexpr KeySpec k_schema[] = {
    {"task.kind", k_text, "\"\"", one_of(k_task_words), k_every,
     "task; empty for `unroll run`, which needs only [model]"},

    {"data.path", k_text, "\"\"", any, k_trained,
     "data file; a relative path starts at the folder of this config", k_free},
    key("data.tokens", one_of("bytes|characters|words|bpe"),
        "tokenizer; label: words or characters, for lines given to `predict`",
        k_fixed, at<&LanguageModel::tokens>, at<&Label::tokens>, at<&Translate::tokens>, at<&Summarize::tokens>),
    key("data.vocabulary", between(1, 1048576), "words, bpe: maximum vocabulary size",
        k_fixed, at<&LanguageModel::vocabulary>, at<&TextRows::vocabulary>),
    key("data.min_count", from(1),
        "words, bpe: minimum count in the training set; rarer words become the unknown token",
        k_fixed, at<&LanguageModel::min_count>, at<&TextRows::min_count>),
    key("data.lowercase", any, "read A to Z in lower case, in sources and targets",
        k_fixed, at<&Summarize::lowercase>),
    key("data.source", any,
        "source column: its name or number, first or last; empty: the one whose header is source, text, article or "
        "similar, else the first", k_fixed, at<&Summarize::source>),
    key("data.target", any,
        "target column: its name or number, first or last; empty: the one whose header is target, summary, title or "
        "similar, else the second", k_fixed, at<&Summarize::target>),
    key("data.split", any,
        "column whose cells are train, validation or test: its name or number; empty: data.validation and data.test "
        "say which rows these are", k_fixed, at<&Summarize::split>),
    key("data.source_tokens", between(1, 1e5), "tokens of a source that are read; the rest is cut",
        k_fixed, at<&Summarize::source_tokens>),
    key("data.target_tokens", between(1, 1e5),
        "tokens of a target in training; the rest is cut. No longer text is decoded, unless --max-length allows it",
        k_fixed, at<&Summarize::target_tokens>),
    key("data.document_start", any,
        "token that starts each document: the carried state is reset before it; empty: one document",
        k_fixed, at<&LanguageModel::document_start>),
    key("data.carry_state", any,
        "start each window from the final state of the previous one; false: from zeros, also in evaluation",
        k_fixed, at<&LanguageModel::carry_state>),
    key("data.shards", between(1, 4096),
        "groups of train.batch streams, one for each batch of an update (train.accumulate), for training on several "
        "ranks", k_fixed, at<&LanguageModel::shards>),
    {"data.memory_limit", k_text, "\"1GiB\"", any, k_trained,
     "maximum memory for the data; a larger file is streamed; empty: no limit", k_free},
    key("data.outside", any, "label that F1 excludes, such as O; empty: none", k_fixed, at<&Label::outside>),
    key("data.steps", between(0, 1e5),
        "language-model: T, tokens per window of truncated backpropagation; classify, regress: time steps per row, 0: "
        "one per feature", k_fixed, at<&LanguageModel::steps>, at<&TableRows::steps>),
    key("data.label", any,
        "label column: its name or number; document: also first or last; empty: classify: the last one, document: the "
        "one whose header is label or similar, else the first", k_fixed, at<&Classify::label>, at<&Document::label>),
    key("data.targets", any, "target columns by name or number; empty: the last column",
        k_fixed, at<&Regress::targets>),
    key("data.text", any,
        "text column: its name or number, first or last; empty: the one whose header is text or similar, else the "
        "second", k_fixed, at<&Document::text>),
    key("data.date", any,
        "date column: its name or number; empty: the first one with a date in its first row; none: no dates, rows are "
        "one step apart", k_fixed, at<&Forecast::date>),
    key("data.divide", between(1e-30, 1e30), "divide all features by this number",
        k_fixed, at<&TableRows::divide>),
    key("data.normalize", any,
        "standardize each feature: subtract its mean in the training set, divide by its standard deviation",
        k_fixed, at<&TableRows::normalize>),
    key("data.header", one_of("auto|yes|no"),
        "whether the first line has column names; auto: yes if no cell is a number, a date or missing; document: yes "
        "if it names a label and a text column",
        k_fixed, at<&Forecast::header>, at<&TableRows::header>, at<&Document::header>),
    key("data.separator", any,
        "cell separator: one character or tab; empty: the first of tab, semicolon and comma that the first line "
        "contains; document: tab, unless the file is a CSV",
        k_fixed, at<&Forecast::separator>, at<&TableRows::separator>, at<&Document::separator>),
    key("data.missing", one_of("error|previous|interpolate|mean"),
        "missing values: refuse them (error), repeat the previous value, interpolate between the neighbors, or "
        "(classify, regress) use the training mean; forecast fills inputs only, never targets",
        k_fixed, at<&TableRows::missing>, at<&Forecast::missing>),
    key("data.split_seed", from(0), "seed of the random assignment of rows to the splits",
        k_fixed, at<&TableRows::split_seed>, at<&TextRows::split_seed>),
    key("data.column", any,
        "column of the series; empty: the last one. Columns of a file without a header are \"1\", \"2\", ...",
        k_fixed, at<&Forecast::column>),
    key("data.columns", any,
        "forecast: columns of several series, instead of data.column; classify, regress: feature columns, empty: all "
        "others", k_fixed, at<&Forecast::columns>, at<&TableRows::columns>),
    key("data.window", between(1, 1e6), "number of past values that a forecast reads",
        k_fixed, at<&Forecast::window>),
    key("data.horizon", between(1, 1e5), "number of future values that are predicted at once",
        k_fixed, at<&Forecast::horizon>),
    key("data.stride", between(1, 1e6), "distance between training windows, in values",
        k_fixed, at<&Forecast::stride>),
    key("data.period", between(1, 1e6), "length of the season for the seasonal-naive baseline, in values",
        k_fixed, at<&Forecast::period>),
    key("data.difference", any,
        "read changes between values, and predict the change from the last value of the window",
        k_fixed, at<&Forecast::difference>),
    key("data.validation", between(0, 0.9),
        "validation set: a share of the data, or a file; a text or series is cut in order: training, validation, test",
        k_free_file, at<&LanguageModel::validation>, at<&Forecast::validation>, at<&TableRows::validation>,
        at<&TextRows::validation>),
    key("data.test", between(0, 0.9), "test set: a share of the data, or a file; of a text or series the last part",
        k_free_file, at<&Forecast::test>, at<&LanguageModel::test>, at<&TableRows::test>, at<&TextRows::test>),

    key("model.cell", any, k_every,
        "rnn, gru, lstm, another built-in cell (see `unroll doctor`), or the NAME of a table [cells.NAME]",
        k_fixed, at<&ModelOptions::cell>),
    {"model.input", k_int, "1", between(1, 1e6), k_tensors, "width I of the input x [T,B,I]"},
    key("model.embedding", between(1, 1e6), "width of the token embedding",
        k_fixed, at<&LanguageModel::embedding>, at<&TextRows::embedding>),
    key("model.tied", any,
        "share the weight of the (decoder's) embedding with the output layer; language-model: the input of that layer "
        "must have the same width", k_fixed, at<&LanguageModel::tied>, at<&Decoder::tied>),
    key("model.shared_embedding", any, "encoder and decoder share one embedding",
        k_fixed, at<&Summarize::shared_embedding>),
    key("model.input_feeding", any,
        "each step of the decoder reads the context of the step before, and the decoder has one layer; false: all "
        "steps are computed at once", k_fixed, at<&Decoder::input_feeding>),
    key("model.pointer", any,
        "pointer-generator: each step may copy a source word, also one that the (target) vocabulary lacks",
        k_fixed, at<&Decoder::pointer>),
    key("model.coverage", any,
        "the attention reads the sum of its past weights, and a loss penalizes attending twice; needs input_feeding "
        "and additive attention", k_fixed, at<&Decoder::coverage>),
    key("model.chunk", between(0, 1e5),
        "source tokens that the encoder reads from a zero state, chunk by chunk at once; 0: the whole source",
        k_fixed, at<&Summarize::chunk>),
    key("model.attention", one_of("dot|additive"), "attention of the decoder over the source",
        k_fixed, at<&Decoder::attention>),
    key("model.pooling", one_of("final|mean|max|attention"),
        "pooling over time: last output, mean, maximum, or attention-weighted mean",
        k_fixed, at<&TableRows::pooling>, at<&Document::pooling>),
    key("model.output", one_of("softmax|crf"),
        "softmax: independent labels; crf: a conditional random field over the sentence", k_fixed, at<&Label::output>),
    key("model.hidden", between(1, 1e6), k_every, "width H of the state", k_fixed, at<&ModelOptions::hidden>),
    key("model.layers", between(1, 64), k_every, "number of stacked layers L", k_fixed, at<&ModelOptions::layers>),
    key("model.stack", one_of("plain|residual|highway"), k_every,
        "skip connections between layers of equal width: none, residual, or highway", k_fixed,
        at<&ModelOptions::stack>),
    key("model.bidirectional", any, k_every & ~k_language_model,
        "add a second direction that reads the sequence in reverse", k_fixed, at<&ModelOptions::bidirectional>),
    key("model.projection", between(0, 1e6), k_every, "lstm: width P of the projected output; 0: no projection",
        k_fixed, at<&ModelOptions::projection>),
    key("model.nonlinearity", one_of("tanh|relu"), k_every, "rnn: activation function of the state",
        k_fixed, at<&ModelOptions::nonlinearity>),
    key("model.bias", any, k_every, "rnn, gru, lstm: use bias_ih and bias_hh", k_fixed, at<&ModelOptions::bias>),
    key("model.reset_after", any, k_every,
        "gru: apply the reset gate after the recurrent product, as in PyTorch and cuDNN",
        k_fixed, at<&ModelOptions::reset_after>),
    key("model.peephole", any, k_every, "lstm: peephole connections from the cell state to the gates",
        k_fixed, at<&ModelOptions::peephole>),
    key("model.dropout", between(0, 0.95), k_trained,
        "dropout between layers and before the output layer; label, translate, summarize: also on the embedding",
        k_free, at<&ModelOptions::dropout>),
    key("model.variational", any, k_trained, "variational dropout: one mask for all steps of a sequence",
        k_free, at<&ModelOptions::variational>),
    key("model.recurrent_dropout", between(0, 0.95), k_trained,
        "rnn, gru, lstm: recurrent dropout on the candidate state (gru, lstm); variational: on the previous hidden "
        "state", k_free, at<&ModelOptions::recurrent_dropout>),
    key("model.weight_drop", between(0, 0.95), k_trained,
        "rnn, gru, lstm: DropConnect on weight_hh, one mask per update", k_free, at<&ModelOptions::weight_drop>),
    key("model.activation_penalty", between(0, 1e3), k_trained,
        "AR: penalty on the mean square of the layer outputs, in training; typical 2",
        k_free, at<&ModelOptions::activation_penalty>),
    key("model.temporal_penalty", between(0, 1e3), k_trained,
        "TAR: penalty on the mean square of the change of the layer outputs between steps, in training; typical 1",
        k_free, at<&ModelOptions::temporal_penalty>),
    key("model.init", one_of("pytorch|xavier|orthogonal"), k_trained, "initialization of the recurrent layers",
        k_fixed, at<&ModelOptions::init>),
    key("model.forget_bias", between(-10, 10), k_trained, "lstm: added to the initial bias of the forget gate",
        k_fixed, at<&ModelOptions::forget_bias>),

    key("train.batch", between(1, 1e5), "sequences per batch (B)",
        k_fixed, at<&LanguageModel::batch>, at<&Forecast::batch>, at<&TableRows::batch>, at<&TextRows::batch>),
    key("train.batch_tokens", from(0), "maximum tokens per batch, padding included; 0: no limit",
        k_fixed, at<&TextRows::batch_tokens>),
    key("train.evaluation_batch", between(1, 1e5),
        "streams into which the evaluation text is divided", k_fixed, at<&LanguageModel::evaluation_batch>),
    key("train.scheduled_sampling", between(0, 1),
        "share of decoder inputs that are its own predictions instead of the target",
        k_free, at<&Sampling::scheduled_sampling>),
    key("train.sampling_schedule", one_of("constant|linear|exponential|inverse-sigmoid"),
        "how scheduled_sampling grows from 0 to its full share", k_free, at<&Sampling::sampling_schedule>),
    key("train.sampling_batches", between(1, k_int_max),
        "linear: batches until the full share; exponential, inverse-sigmoid: n in e^(-batch / n)",
        k_free, at<&Sampling::sampling_batches>),
    key("train.coverage_weight", between(0, 1e3), "with model.coverage: factor of the coverage loss",
        k_free, at<&Decoder::coverage_weight>),
    key("train.label_smoothing", between(0, 0.99),
        "share of each target that is distributed over all classes, in training",
        k_free, at<&LanguageModel::label_smoothing>, at<&Classify::label_smoothing>, at<&TextRows::label_smoothing>),
    key("train.optimizer", one_of("sgd|adam|adamw|rmsprop|adagrad|lion"), k_trained, "optimizer",
        k_fixed, at<&Trainer::optimizer, &Optimizer::name>),
    key("train.lr", between(0, 1e3), k_trained, "learning rate", k_free, at<&Trainer::optimizer, &Optimizer::lr>),
    key("train.momentum", between(0, 1), k_trained, "sgd, rmsprop: momentum",
        k_fixed, at<&Trainer::optimizer, &Optimizer::momentum>),
    key("train.nesterov", any, k_trained, "sgd: Nesterov momentum",
        k_fixed, at<&Trainer::optimizer, &Optimizer::nesterov>),
    key("train.beta1", between(0, 0.999999), k_trained, "adam, adamw, lion: decay of the first moment",
        k_free, at<&Trainer::optimizer, &Optimizer::beta1>),
    key("train.beta2", between(0, 0.999999999), k_trained, "adam, adamw, lion: decay of the second moment",
        k_free, at<&Trainer::optimizer, &Optimizer::beta2>),
    key("train.epsilon", between(0, 1), k_trained, "adaptive optimizers: added to the denominator",
        k_free, at<&Trainer::optimizer, &Optimizer::epsilon>),
    key("train.alpha", between(0, 1), k_trained, "rmsprop: decay of the squared gradient",
        k_free, at<&Trainer::optimizer, &Optimizer::alpha>),
    key("train.weight_decay", between(0, 10), k_trained,
        "L2 penalty; decoupled for adamw and lion; not applied to biases and norm gains",
        k_free, at<&Trainer::optimizer, &Optimizer::weight_decay>),
    key("train.decay_vectors", any, k_trained, "apply weight decay to biases and norm gains too",
        k_free, at<&Trainer::optimizer, &Optimizer::decay_vectors>),
    key("train.schedule", one_of("constant|linear|cosine|step|plateau|one-cycle"), k_trained,
        "learning rate schedule between warm-up and cool-down", k_free, at<&Trainer::schedule, &Schedule::name>),
    key("train.warmup", from(0), k_trained, "updates in which the learning rate rises linearly from 0",
        k_free, at<&Trainer::schedule, &Schedule::warmup>),
    key("train.final_fraction", between(0, 1), k_trained,
        "linear, cosine, one-cycle, cool-down: final learning rate / initial one",
        k_free, at<&Trainer::schedule, &Schedule::final_fraction>),
    key("train.cooldown", from(0), k_trained, "last updates, in which the learning rate falls linearly",
        k_free, at<&Trainer::schedule, &Schedule::cooldown>),
    key("train.lr_factor", between(1e-6, 1), k_trained, "step, plateau: factor for the learning rate",
        k_free, at<&Trainer::schedule, &Schedule::factor>),
    key("train.step_every", from(1), k_trained, "step: updates between changes",
        k_free, at<&Trainer::schedule, &Schedule::step_every>),
    key("train.plateau_patience", from(1), k_trained,
        "plateau: validations without improvement before the learning rate falls",
        k_free, at<&Trainer::schedule, &Schedule::plateau_patience>),
    {"train.precision", k_text, "\"f32\"", one_of("f32|tf32|bf16|f16"), k_trained,
     "number formats by role: operands of products, and in bf16 and f16 what loops read and save. f16 scales the loss"},
    key("train.loss_scale", between(1, 16777216), k_trained, "f16: initial loss scale, a power of two",
        k_fixed, at<&Trainer::loss_scale, &LossScale::initial>),
    key("train.loss_scale_every", from(1), k_trained, "f16: updates without overflow before the loss scale doubles",
        k_free, at<&Trainer::loss_scale, &LossScale::growth_every>),
    key("train.accumulate", between(1, 1e5), k_trained,
        "batches per update (gradient accumulation): the gradient of `batch * accumulate` sequences",
        k_fixed, at<&Trainer::accumulate>),
    key("train.clip_norm", between(0, 1e9), k_trained, "maximum global norm of the gradient; 0: off",
        k_free, at<&Trainer::clip, &Clip::norm>),
    key("train.clip_value", between(0, 1e9), k_trained, "maximum absolute value of a gradient element; 0: off",
        k_free, at<&Trainer::clip, &Clip::value>),
    key("train.clip_adaptive", between(0, 1e3), k_trained,
        "adaptive clipping: maximum gradient norm / weight norm of a unit; 0: off; typical 0.01",
        k_free, at<&Trainer::clip, &Clip::adaptive>),
    {"train.average", k_text, "\"none\"", one_of("none|ema|mean"), k_trained,
     "weight averaging over updates; the average is validated and saved as best"},
    key("train.average_decay", between(0, 0.9999999), k_trained, "ema: decay of the average per update",
        k_free, at<&Trainer::average, &Averaging::decay>),
    key("train.average_start", from(0), k_trained, "first update that is averaged",
        k_free, at<&Trainer::average, &Averaging::start>),
    key("train.max_updates", between(1, k_int_max), k_trained, "total number of updates",
        k_free, at<&Trainer::max_updates>),
    key("train.epochs", between(0, k_int_max), k_trained,
        "if set, max_updates is this number of passes over the training set", k_free, at<&Trainer::epochs>),
    key("train.max_minutes", between(0, 1e6), k_trained,
        "if set, stop after this many minutes; the run can be resumed; 0: no limit", k_free, at<&Trainer::max_minutes>),
    key("train.validate_every", from(0), k_trained, "updates between validations; 0: never",
        k_free, at<&Trainer::validate_every>),
    key("train.validation_batches", from(0), k_trained, "maximum batches per validation; 0: all",
        k_free, at<&Trainer::validation_batches>),
    key("train.patience", from(0), k_trained,
        "early stopping: stop after this many validations without improvement; 0: off", k_free, at<&Trainer::patience>),
    key("train.checkpoint_every", from(0), k_trained, "updates between checkpoints; 0: only at the end",
        k_free, at<&Trainer::checkpoint_every>),
    key("train.keep", between(0, 1e6), k_trained,
        "number of recent checkpoints to keep as checkpoint-UPDATE.safetensors", k_free, at<&Trainer::keep>),
    key("train.log_every", from(0), k_trained, "updates between reports; 0: none", k_free, at<&Trainer::log_every>),
    key("train.watch_every", from(0), k_trained,
        "updates between training statistics (gradients, updates, saturated gates by layer); 0: off",
        k_free, at<&Trainer::watch_every>),
    {"train.on_bad", k_text, "\"skip\"", one_of("skip|stop|rollback"), k_trained,
     "what to do after a non-finite update: skip it, stop, or return to the last checkpoint with half the rate",
     k_free},
    key("train.prefetch", between(0, 1024), k_trained,
        "updates whose batches a second thread prepares in advance; 0: none", k_free, at<&Trainer::prefetch>),
    key("train.max_bad_updates", from(0), k_trained,
        "skip, rollback: non-finite updates in a row before the run stops or returns; 0: no limit",
        k_free, at<&Trainer::max_bad_updates>),
    key("train.max_rollbacks", from(0), k_trained, "rollback: maximum number of returns before the run stops",
        k_free, at<&Trainer::max_rollbacks>),
    key("train.seed", from(0), k_trained, "seed of all random numbers", k_fixed, at<&Trainer::seed>),

    {"run.backend", k_text, "\"cpu\"", any, k_every, "backend: cpu, reference, ... (see `unroll doctor`)", k_free},
    {"run.threads", k_int, "0", between(0, 4096), k_every, "number of threads; 0: all available processors", k_free},
    key("run.estimate_seconds", "3.0", between(0, 60), k_trained,
        "time limit, in seconds, of the trial updates that estimate a run; those that count take at most 5 % of the "
        "run (of a short run 20 % and 0.3 seconds), those before the backend has chosen its schedules 10 %; 0: no "
        "estimate", k_free, at<&Trainer::estimate_seconds>),
    {"run.tensorboard", k_bool, "false", any, k_trained, "write a TensorBoard event file into the run folder", k_free},
    {"run.rank_timeout", k_num, "300.0", between(1, 1e6), k_trained,
     "seconds that a rank waits for another one (docs/scaling.md)", k_free},
    {"run.memory_limit", k_text, "\"\"", any, k_trained,
     "maximum memory of an update, such as 2GiB; larger updates use gradient checkpointing", k_free},
    {"run.chunk_steps", k_int, "0", between(0, 1e6), k_trained,
     "steps after which the next layer may begin, so that stacked layers run at once on several threads; costs memory; "
     "0: off"},
};

constexpr TableKeySpec k_table_keys[] = {
    {"cells", "states", TableKeyType::texts, "names of the states, each of width `model.hidden`"},
    {"cells", "step", TableKeyType::text, "one assignment per line; each state is assigned its next value: `h' = ...`"},
    {"cells", "y", TableKeyType::text, "output of a step, an expression; default: the first state"},
    {"groups", "match", TableKeyType::text, "pattern for parameter names; `*` matches any characters: `embedding.*`"},
    {"groups", "lr_scale", TableKeyType::number, "factor for `train.lr`; default 1; 0 freezes the parameters"},
    {"groups", "weight_decay", TableKeyType::number, "replaces `train.weight_decay`"},
};

}  // namespace

std::span<const KeySpec> config_schema() { return k_schema; }
std::span<const TableKeySpec> table_schema() { return k_table_keys; }

}  // namespace unroll::cli

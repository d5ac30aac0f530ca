// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/shim/cudnn_layers.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/backends/cuda/shim/elements.h"

namespace unroll::shim {

using cuda::dnn::Cell;
using Index = std::int64_t;
using Numbers = std::vector<double>;

std::int64_t Layers::gates() const { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

namespace {

constexpr std::size_t k_gap = 64;  // bytes between kinds of parameters

// Calls with each parameter of each pseudo-layer, in the order of memory: all matrices, then all biases.
using OnWeight = std::function<void(Index layer, Index number, bool is_bias, WeightPlace)>;
void each_weight(const Layers& s, const OnWeight& call) {
  std::size_t at = k_gap;
  const std::size_t width = width_of(s.type);
  for (const bool is_bias : {false, true})
    for (Index layer = 0; layer < s.L * s.D; ++layer)
      for (Index number = 0; number < 2 * s.gates() + s.projects(); ++number) {
        if (is_bias && (!s.bias || number >= 2 * s.gates())) continue;
        const bool projects = number == 2 * s.gates();
        const Index columns = is_bias ? 1 : projects ? s.H : number < s.gates() ? s.width_in(layer / s.D) : s.P;
        const WeightPlace place{at, projects ? s.P : s.H, columns};
        call(layer, number, is_bias, place);
        at += static_cast<std::size_t>(place.rows * columns) * width;
        const bool is_last = projects || (number + 1) % s.gates() == 0;  // gates of a kind lie together
        if (is_last) at = (at + k_gap) / 16 * 16 + 16;
      }
  call(-1, 0, false, {at});
}

// The parameters of a pseudo-layer. ih [G*H, in], hh [G*H, P], biases [G*H], hr [P, H].
struct Parameters {
  Numbers ih, hh, b_ih, b_hh, hr;
};
double rounded(const Layers& s, double x) { return s.tf32 ? round_to(k_tf32, static_cast<float>(x)) : x; }
std::vector<Parameters> parameters_of(const Layers& s, const void* weights) {
  std::vector<Parameters> all(static_cast<std::size_t>(s.L * s.D));
  each_weight(s, [&](Index layer, Index number, bool is_bias, const WeightPlace& place) {
    if (layer < 0) return;
    Parameters& p = all[static_cast<std::size_t>(layer)];
    Numbers& to = number == 2 * s.gates() ? p.hr
                  : number < s.gates()    ? (is_bias ? p.b_ih : p.ih)
                                          : (is_bias ? p.b_hh : p.hh);
    const void* const from = static_cast<const char*>(weights) + place.at;
    for (Index i = 0; i < place.rows * place.columns; ++i) {
      const double x = loaded(s.type, from, i);
      to.push_back(is_bias ? x : rounded(s, x));
    }
  });
  return all;
}

// Arrays in the reserve, of one row of one step of one direction of one layer.
//   values   lstm i f g o c raw; gru r z n m (m = W_hn h + b_hn); rnn nothing
//   dgates   of the sums of gates: input side, then (gru) that of m; lstm with projection: then the gradient of h
struct Reserve {
  explicit Reserve(const Layers& layers) : s(layers) {
    values = s.cell == Cell::lstm ? 6 * s.H : s.cell == Cell::gru ? 4 * s.H : 0;
    dgates = s.cell == Cell::gru ? 4 * s.H : s.gates() * s.H + (s.projects() ? s.P : 0);
    rows = s.L * s.D * s.T * s.B;
  }
  Index row(Index l, Index d, Index t, Index b) const { return ((l * s.D + d) * s.T + t) * s.B + b; }
  Index value(Index l, Index d, Index t, Index b) const { return row(l, d, t, b) * values; }
  Index dgate(Index l, Index d, Index t, Index b) const { return rows * values + row(l, d, t, b) * dgates; }
  Index y(Index l, Index t, Index b) const { return rows * (values + dgates) + ((l * s.T + t) * s.B + b) * s.D * s.P; }
  Index size() const { return rows * (values + dgates) + s.L * s.T * s.B * s.D * s.P; }
  const Layers& s;
  Index values, dgates, rows;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// sums[j] += w[j, :] x, or its transpose.
void add_product(const Layers& s, const double* w, Index rows, Index columns, const double* x, double* sums) {
  for (Index j = 0; j < rows; ++j)
    for (Index k = 0; k < columns; ++k) sums[j] += w[j * columns + k] * rounded(s, x[k]);
}
void add_transposed(const Layers& s, const double* w, Index rows, Index columns, const double* x, double* sums) {
  for (Index j = 0; j < rows; ++j)
    for (Index k = 0; k < columns; ++k) sums[k] += w[j * columns + k] * rounded(s, x[j]);
}

Numbers read_all(const Layers& s, const void* from, Index n) {
  Numbers all(static_cast<std::size_t>(n));
  for (Index i = 0; from && i < n; ++i) all[static_cast<std::size_t>(i)] = loaded(s.type, from, i);
  return all;
}
void write_all(const Layers& s, void* to, const Numbers& all) {
  for (std::size_t i = 0; to && i < all.size(); ++i) store(s.type, to, static_cast<Index>(i), all[i]);
}

// One row of one step. `a` and `m` are sums of the input's and the state's side; h [P] and c [H] become the new ones.
void step(const Layers& s, const Parameters& p, const Numbers& a, const Numbers& m, double* h, double* c,
          double* values) {
  const Index H = s.H;
  const auto at = [](Index i) { return static_cast<std::size_t>(i); };
  Numbers raw(at(H));
  for (Index j = 0; j < H; ++j) {
    const auto sum = [&](Index gate) { return a[at(gate * H + j)] + m[at(gate * H + j)]; };
    if (s.cell == Cell::lstm) {
      const double i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = std::tanh(sum(2)), o = sigmoid(sum(3));
      c[j] = f * c[j] + i * g;
      raw[at(j)] = o * std::tanh(c[j]);
      const double kept[] = {i, f, g, o, c[j], raw[at(j)]};
      for (Index k = 0; k < 6; ++k) values[k * H + j] = kept[k];
    } else if (s.cell == Cell::gru) {
      const double r = sigmoid(sum(0)), z = sigmoid(sum(1)), inner = m[at(2 * H + j)];
      const double n = std::tanh(a[at(2 * H + j)] + r * inner);
      raw[at(j)] = (1 - z) * n + z * h[j];
      const double kept[] = {r, z, n, inner};
      for (Index k = 0; k < 4; ++k) values[k * H + j] = kept[k];
    } else {
      raw[at(j)] = s.cell == Cell::tanh ? std::tanh(sum(0)) : std::max(sum(0), 0.0);
    }
  }
  std::fill_n(h, s.P, 0.0);
  if (s.projects()) add_product(s, p.hr.data(), s.P, H, raw.data(), h);
  else std::copy(raw.begin(), raw.end(), h);
}

}  // namespace

WeightPlace weight_place(const Layers& s, Index pseudo_layer, Index number, bool is_bias) {
  WeightPlace found;
  each_weight(s, [&](Index l, Index n, bool bias, const WeightPlace& place) {
    if (l == pseudo_layer && n == number && bias == is_bias) found = place;
  });
  return found;
}
std::size_t weight_bytes(const Layers& s) {
  std::size_t bytes = 0;
  each_weight(s, [&](Index, Index, bool, const WeightPlace& place) { bytes = place.at; });
  return bytes;
}
bool gaps_are_zero(const Layers& s, const void* weights) {
  const char* const bytes = static_cast<const char*>(weights);
  std::size_t end = 0;  // of what came before
  bool zero = true;
  each_weight(s, [&](Index, Index, bool, const WeightPlace& place) {
    zero = zero && std::all_of(bytes + end, bytes + place.at, [](char c) { return c == 0; });
    end = place.at + static_cast<std::size_t>(place.rows * place.columns) * width_of(s.type);
  });
  return zero;
}
std::size_t reserve_bytes(const Layers& s) { return static_cast<std::size_t>(Reserve(s).size()) * sizeof(double); }

void run_forward(const Layers& s, const ForwardPass& pass) {
  const Reserve at(s);
  Numbers own(pass.reserve ? 0 : static_cast<std::size_t>(at.size()));
  double* const reserve = pass.reserve ? pass.reserve : own.data();
  const std::vector<Parameters> parameters = parameters_of(s, pass.weights);
  const Numbers x = read_all(s, pass.x, s.T * s.B * s.I);
  Numbers h = read_all(s, pass.h0, s.L * s.D * s.B * s.P);
  Numbers c = read_all(s, s.cell == Cell::lstm ? pass.c0 : nullptr, s.L * s.D * s.B * s.H);
  const Index rows = s.gates() * s.H;
  for (Index l = 0; l < s.L; ++l)
    for (Index d = 0; d < s.D; ++d)
      for (Index k = 0; k < s.T; ++k)
        for (Index b = 0; b < s.B; ++b) {
          const Index t = d == 1 ? s.T - 1 - k : k, state = (l * s.D + d) * s.B + b;
          const Parameters& p = parameters[static_cast<std::size_t>(l * s.D + d)];
          const double* const in = l == 0 ? x.data() + (t * s.B + b) * s.I : reserve + at.y(l - 1, t, b);
          Numbers a(static_cast<std::size_t>(rows)), m(a);
          if (s.bias) a = p.b_ih, m = p.b_hh;
          add_product(s, p.ih.data(), rows, s.width_in(l), in, a.data());
          add_product(s, p.hh.data(), rows, s.P, h.data() + state * s.P, m.data());
          step(s, p, a, m, h.data() + state * s.P, c.data() + state * s.H, reserve + at.value(l, d, t, b));
          std::copy_n(h.data() + state * s.P, s.P, reserve + at.y(l, t, b) + d * s.P);
        }
  const double* const last = reserve + at.y(s.L - 1, 0, 0);
  write_all(s, pass.y, Numbers(last, last + s.T * s.B * s.D * s.P));
  write_all(s, pass.hn, h);
  if (s.cell == Cell::lstm) write_all(s, pass.cn, c);
}

void run_data_gradient(const Layers& s, const DataGradient& pass) {
  const Reserve at(s);
  double* const reserve = pass.reserve;
  const std::vector<Parameters> parameters = parameters_of(s, pass.weights);
  const Numbers h0 = read_all(s, pass.h0, s.L * s.D * s.B * s.P), c0 = read_all(s, pass.c0, s.L * s.D * s.B * s.H);
  Numbers dh = read_all(s, pass.d_hn, s.L * s.D * s.B * s.P), dc = read_all(s, pass.d_cn, s.L * s.D * s.B * s.H);
  Numbers d_out = read_all(s, pass.d_y, s.T * s.B * s.D * s.P);  // of the layer's output
  const Index H = s.H, rows = s.gates() * H;
  for (Index l = s.L; l-- > 0;) {
    Numbers d_in(static_cast<std::size_t>(s.T * s.B * s.width_in(l)));
    for (Index d = 0; d < s.D; ++d)
      for (Index k = s.T; k-- > 0;)
        for (Index b = 0; b < s.B; ++b) {
          const Index t = d == 1 ? s.T - 1 - k : k, before = d == 1 ? t + 1 : t - 1, state = (l * s.D + d) * s.B + b;
          const Parameters& p = parameters[static_cast<std::size_t>(l * s.D + d)];
          double* const g_h = dh.data() + state * s.P;
          double* const g_c = dc.data() + state * H;
          const double* const g_y = d_out.data() + ((t * s.B + b) * s.D + d) * s.P;
          for (Index j = 0; j < s.P; ++j) g_h[j] += g_y[j];
          double* const gates = reserve + at.dgate(l, d, t, b);
          const double* const v = reserve + at.value(l, d, t, b);
          Numbers raw(static_cast<std::size_t>(H));  // gradient of h before the projection
          if (s.projects()) {
            add_transposed(s, p.hr.data(), s.P, H, g_h, raw.data());
            std::copy_n(g_h, s.P, gates + 4 * H);
          } else {
            std::copy_n(g_h, H, raw.begin());
          }
          const double* const h_old =
              k == 0 ? h0.data() + state * s.P : reserve + at.y(l, before, b) + d * s.P;
          const double* const h_new = reserve + at.y(l, t, b) + d * s.P;
          Numbers carried(static_cast<std::size_t>(s.P));  // to the state before, besides products
          for (Index j = 0; j < H; ++j) {
            const double g = raw[static_cast<std::size_t>(j)];
            if (s.cell == Cell::lstm) {
              const double i = v[j], f = v[H + j], n = v[2 * H + j], o = v[3 * H + j], tanh_c = std::tanh(v[4 * H + j]);
              const double c_old = k == 0 ? c0[static_cast<std::size_t>(state * H + j)]
                                          : reserve[at.value(l, d, before, b) + 4 * H + j];
              const double g_new = g_c[j] + g * o * (1 - tanh_c * tanh_c);
              gates[j] = g_new * n * i * (1 - i), gates[H + j] = g_new * c_old * f * (1 - f);
              gates[2 * H + j] = g_new * i * (1 - n * n), gates[3 * H + j] = g * tanh_c * o * (1 - o);
              g_c[j] = g_new * f;
            } else if (s.cell == Cell::gru) {
              const double r = v[j], z = v[H + j], n = v[2 * H + j], m = v[3 * H + j];
              const double d_n = g * (1 - z) * (1 - n * n);
              gates[j] = d_n * m * r * (1 - r), gates[H + j] = g * (h_old[j] - n) * z * (1 - z);
              gates[2 * H + j] = d_n, gates[3 * H + j] = d_n * r;
              carried[static_cast<std::size_t>(j)] = g * z;
            } else {
              gates[j] = s.cell == Cell::tanh ? g * (1 - h_new[j] * h_new[j]) : h_new[j] > 0 ? g : 0;
            }
          }
          Numbers side(gates, gates + rows);
          add_transposed(s, p.ih.data(), rows, s.width_in(l), side.data(), d_in.data() + (t * s.B + b) * s.width_in(l));
          if (s.cell == Cell::gru) std::copy_n(gates + 3 * H, H, side.begin() + 2 * H);
          std::copy(carried.begin(), carried.end(), g_h);
          add_transposed(s, p.hh.data(), rows, s.P, side.data(), g_h);
        }
    d_out = std::move(d_in);
  }
  write_all(s, pass.d_x, d_out);
  write_all(s, pass.d_h0, dh);
  if (s.cell == Cell::lstm) write_all(s, pass.d_c0, dc);
}

void run_weight_gradient(const Layers& s, const WeightGradient& pass) {
  const Reserve at(s);
  const Numbers x = read_all(s, pass.x, s.T * s.B * s.I), h0 = read_all(s, pass.h0, s.L * s.D * s.B * s.P);
  each_weight(s, [&](Index layer, Index number, bool is_bias, const WeightPlace& place) {
    if (layer < 0) return;
    const Index l = layer / s.D, d = layer % s.D, H = s.H;
    const bool projects = number == 2 * s.gates(), is_input = number < s.gates();
    Index gate = projects ? 4 : number % s.gates();
    if (s.cell == Cell::gru && !is_input && gate == 2) gate = 3;  // of m
    Numbers sums(static_cast<std::size_t>(place.rows * place.columns));
    for (Index k = 0; k < s.T; ++k)
      for (Index b = 0; b < s.B; ++b) {
        const Index t = d == 1 ? s.T - 1 - k : k, before = d == 1 ? t + 1 : t - 1;
        const double* const g = pass.reserve + at.dgate(l, d, t, b) + gate * H;
        const double* const h_old = k == 0 ? h0.data() + (layer * s.B + b) * s.P
                                           : pass.reserve + at.y(l, before, b) + d * s.P;
        const double* const in = l == 0 ? x.data() + (t * s.B + b) * s.I : pass.reserve + at.y(l - 1, t, b);
        const double* const factor =
            projects ? pass.reserve + at.value(l, d, t, b) + 5 * H : is_input ? in : h_old;
        for (Index j = 0; j < place.rows; ++j)
          for (Index c = 0; c < place.columns; ++c)
            sums[static_cast<std::size_t>(j * place.columns + c)] +=
                is_bias ? g[j] : rounded(s, g[j]) * rounded(s, factor[c]);
      }
    void* const to = static_cast<char*>(pass.d_weights) + place.at;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto n = static_cast<Index>(i);
      store(s.type, to, n, loaded(s.type, to, n) + sums[i]);
    }
  });
}

}  // namespace unroll::shim

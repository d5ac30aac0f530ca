// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/vulkan/kernels/kernels.h"

namespace unroll::vulkan {

namespace {

constexpr int k_philox_rounds = 10;

}  // namespace

Words gather_shader(DType dtype, const Setting& setting) {
  Code c(module_options(setting, 3));
  const Term element = c.global_index();
  c.when(element < parameter(c, 0), [&] {
    const Term rows = parameter(c, 1), size = parameter(c, 2);
    // A negative index is a large unsigned one.
    const Term index = c.as(Kind::u32, load_element(c, 1, element / size, DType::i32));
    const Local value = c.local(c.zero(kind_of(dtype)));
    c.when(index < rows, [&] { value.set(load_element(c, 0, index * size + element % size, dtype)); });
    store_element(c, 2, element, value.get(), dtype);
  });
  return c.finish();
}

Words scatter_shader(DType dtype, const Setting& setting) {
  Code c(module_options(setting, 3));
  const Term element = c.global_index();
  c.when(element < parameter(c, 0), [&] {
    const Term size = parameter(c, 1), row = element / size, column = element % size;
    const Local sum = c.local(c.zero(kind_of(dtype)));
    c.when(parameter(c, 4) != c.u(0), [&] { sum.set(load_element(c, 2, element, dtype)); });
    c.loop(parameter(c, 2), parameter(c, 3), c.u(1), [&](Term i) {
      c.when(c.as(Kind::u32, load_element(c, 0, i, DType::i32)) == row,
             [&] { sum.set(sum.get() + load_element(c, 1, i * size + column, dtype)); });
    });
    store_element(c, 2, element, sum.get(), dtype);
  });
  return c.finish();
}

Words links_shader(const Setting& setting) {
  Code c(module_options(setting, 2));
  const Term element = c.global_index(), n = parameter(c, 0);
  c.when(element < n, [&] {
    const auto index = [&](Term at) { return load_element(c, 0, at, DType::i32); };
    const Term own = index(element);
    const Local next = c.local(element + c.u(1)), before = c.local(element);
    const Local differs = c.local(c.truth(true));
    c.repeat([&] { return (next.get() < n) & differs.get(); },
             [&] {
               differs.set(index(next.get()) != own);
               next.set(next.get() + c.convert(Kind::u32, differs.get()));
             });
    store_element(c, 1, element, c.select(differs.get(), c.u(k_no_link), next.get()), DType::i32);
    differs.set(c.truth(true));
    c.repeat([&] { return (before.get() > c.u(0)) & differs.get(); },
             [&] {
               before.set(before.get() - c.u(1));
               differs.set(index(before.get()) != own);
             });
    store_element(c, 1, n + element, c.convert(Kind::u32, differs.get()), DType::i32);
  });
  return c.finish();
}

Words linked_scatter_shader(DType dtype, const Setting& setting) {
  Code c(module_options(setting, 4));
  const Term element = c.global_index();
  c.when(element < parameter(c, 0), [&] {
    const Term n = parameter(c, 1), rows = parameter(c, 2), size = parameter(c, 3);
    const auto link = [&](Term at) { return c.as(Kind::u32, load_element(c, 2, at, DType::i32)); };
    const Term first = element / size, column = element % size;
    const Term row = c.as(Kind::u32, load_element(c, 0, first, DType::i32));
    c.when((link(n + first) != c.u(0)) & (row < rows), [&] {
      const Local at = c.local(first), sum = c.local(c.zero(kind_of(dtype)));
      c.repeat([&] { return at.get() != c.u(k_no_link); },
               [&] {
                 sum.set(sum.get() + load_element(c, 1, at.get() * size + column, dtype));
                 at.set(link(at.get()));
               });
      store_element(c, 3, row * size + column, sum.get(), dtype);
    });
  });
  return c.finish();
}

Words iota_shader(const Setting& setting) {
  Code c(module_options(setting, 1));
  const Term element = c.global_index();
  c.when(element < parameter(c, 0),
         [&] { store_element(c, 0, element, (element / parameter(c, 1)) % parameter(c, 2), DType::i32); });
  return c.finish();
}

// As core/support/philox.h: element e of the draw is word e % 4 of block e / 4; e has 64 bits.
Words random_shader(bool has_step, const Setting& setting) {
  Code c(module_options(setting, has_step ? 3 : 2));
  const Term element = c.global_index();
  c.when(element < parameter(c, 0), [&] {
    const auto key = [&](std::uint32_t i) { return load_element(c, 0, c.u(i), DType::i32); };
    Term low = element, high = c.u(0);
    if (has_step) {
      const auto [start_low, start_high] =
          c.wide_product(load_element(c, 1, c.u(0), DType::i32), c.as(Kind::i32, parameter(c, 0)));
      const auto [sum, carry] = c.sum_with_carry(c.as(Kind::u32, start_low), element);
      low = sum;
      high = c.as(Kind::u32, start_high) + carry;
    }
    Term x[4] = {(low >> c.u(2)) | (high << c.u(30)), high >> c.u(2), parameter(c, 1), c.as(Kind::u32, key(2))};
    Term k0 = c.as(Kind::u32, key(0)), k1 = c.as(Kind::u32, key(1));
    for (int round = 0; round < k_philox_rounds; ++round) {
      const auto [low0, high0] = c.wide_product(c.u(0xD2511F53u), x[0]);
      const auto [low1, high1] = c.wide_product(c.u(0xCD9E8D57u), x[2]);
      x[0] = high1 ^ x[1] ^ k0;
      x[2] = high0 ^ x[3] ^ k1;
      x[1] = low1;
      x[3] = low0;
      k0 = k0 + c.u(0x9E3779B9u);
      k1 = k1 + c.u(0xBB67AE85u);
    }
    const Term lane = low & c.u(3);
    const Term word = c.select(lane < c.u(2), c.select(lane == c.u(0), x[0], x[1]),
                               c.select(lane == c.u(2), x[2], x[3]));
    store_element(c, has_step ? 2 : 1, element, c.convert(Kind::f32, word >> c.u(8)) * c.f(0x1p-24f),
                  DType::f32);
  });
  return c.finish();
}

// Everything follows from sums over the rows b of the batch, so no invocation needs another one's result.
Words pack_shader(const Setting& setting) {
  Code c(module_options(setting, 7));
  const Term p = c.global_index(), batch = parameter(c, 0), steps = parameter(c, 1);
  const Term width = c.select(batch == c.u(0), c.u(1), batch), b = p % width, t = p / width;
  const auto length_of = [&](Term row) {  // cut to 0 .. T
    const Term l = load_element(c, 0, row, DType::i32), most = c.as(Kind::i32, steps);
    const Term cut = c.select(l < c.i(0), c.i(0), c.select(l > most, most, l));
    return c.as(Kind::u32, cut);
  };
  const auto store = [&](int operand, Term at, Term n) { store_element(c, operand, at, n, DType::i32); };
  const auto count = [&](Term condition) { return c.convert(Kind::u32, condition); };
  const Local own = c.local(c.u(0)), rank = c.local(c.u(0)), before = c.local(c.u(0)), total = c.local(c.u(0)),
              size = c.local(c.u(0));
  c.when(b < batch, [&] { own.set(length_of(b)); });
  c.loop(c.u(0), batch, c.u(1), [&](Term other) {
    const Term length = length_of(other), mine = own.get();
    rank.set(rank.get() + count((length > mine) | ((length == mine) & (other < b))));
    before.set(before.get() + c.select(length < t, length, t));
    total.set(total.get() + length);
    size.set(size.get() + count(length > p));
  });
  c.when(p < steps, [&] { store(1, p, size.get()); });
  c.when(p < batch, [&] {
    store(2, rank.get(), b);
    store(3, b, rank.get());
  });
  c.when(p < batch * steps, [&] {
    const Term row = before.get() + rank.get(), there = t < own.get();
    c.when(there, [&] { store(4, row, p); });
    c.when(p >= total.get(), [&] { store(4, p, c.u(0xffffffffu)); });
    store(5, p, c.select(there, row, c.u(0xffffffffu)));
  });
  c.when(p == c.u(0), [&] { store(6, c.u(0), total.get()); });
  return c.finish();
}

}  // namespace unroll::vulkan

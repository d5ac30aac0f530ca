// SPDX-License-Identifier: Apache-2.0
// Kernels before and after a packed loop: the rows of its steps, and its final states.
#include "backends/vulkan/kernels/kernels.h"

namespace unroll::vulkan {

Words live_rows_shader(const Setting& setting) {
  Code c(module_options(setting, 2));
  const Term step = c.global_index(), batch = parameter(c, 1);
  c.when(step < parameter(c, 0), [&] {
    const auto rows_of = [&](Term t) {  // cut to 0 .. B
      const Term n = load_element(c, 0, t, DType::i32), most = c.as(Kind::i32, batch);
      return c.as(Kind::u32, c.select(n < c.i(0), c.i(0), c.select(n > most, most, n)));
    };
    const Local before = c.local(c.u(0));
    c.loop(c.u(0), step, c.u(1), [&](Term t) { before.set(before.get() + rows_of(t)); });
    store_element(c, 1, step + step, rows_of(step), DType::i32);
    store_element(c, 1, step + step + c.u(1), before.get(), DType::i32);
  });
  return c.finish();
}

// The steps of a row are as many as have more rows than its number; rows never become more.
Words final_states_shader(DType dtype, const Setting& setting) {
  Code c(module_options(setting, 4));
  const Term element = c.global_index();
  c.when(element < parameter(c, 0), [&] {
    const Term row = element / parameter(c, 1), steps = parameter(c, 2);
    const Local low = c.local(c.u(0)), high = c.local(steps);
    c.repeat([&] { return low.get() < high.get(); },
             [&] {
               const Term middle = (low.get() + high.get()) >> c.u(1);
               const Term is_there = row < c.as(Kind::u32, load_element(c, 0, middle + middle, DType::i32));
               low.set(c.select(is_there, middle + c.u(1), low.get()));
               high.set(c.select(is_there, high.get(), middle));
             });
    const Term length = low.get(), last = c.select(parameter(c, 4) != c.u(0), steps, length) - c.u(1);
    const Local bits = c.local(load_element(c, 1, element, dtype));
    c.when(length != c.u(0),
           [&] { bits.set(load_element(c, 2, (last & c.u(1)) * parameter(c, 3) + element, dtype)); });
    store_element(c, 3, element, bits.get(), dtype);
  });
  return c.finish();
}

}  // namespace unroll::vulkan

// SPDX-License-Identifier: Apache-2.0
// Owners of oneDNN's objects, running a primitive and changing a layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/onednn/library.h"
#include "unroll/support/types.h"

namespace unroll::onednn {

struct Destroy {
  void operator()(dnnl_memory_desc_t p) const { library().memory_desc_destroy(p); }
  void operator()(dnnl_memory_t p) const { library().memory_destroy(p); }
  void operator()(dnnl_primitive_attr_t p) const { library().primitive_attr_destroy(p); }
  void operator()(dnnl_primitive_desc_t p) const { library().primitive_desc_destroy(p); }
  void operator()(dnnl_primitive_t p) const { library().primitive_destroy(p); }
  void operator()(dnnl_stream_t p) const { library().stream_destroy(p); }
};
template <class T> using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy>;

using Desc = Owned<dnnl_memory_desc_t>;            // type and layout of a tensor
using PrimitiveDesc = Owned<dnnl_primitive_desc_t>;  // a selected kernel

// Returns a tensor with these dimensions and strides in elements; without strides the primitive may choose its layout.
Desc make_desc(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides,
               DType dtype = DType::f32);
Desc dense_desc(const std::vector<std::int64_t>& dims, DType dtype = DType::f32);
Desc open_desc(const std::vector<std::int64_t>& dims, DType dtype = DType::f32);
std::size_t bytes_of(const_dnnl_memory_desc_t desc);  // 0 for null

// The caller supplies scratch memory, so that the memory plan includes it.
Owned<dnnl_primitive_attr_t> caller_owns_scratch();
// Returns the layout of the tensor with oneDNN's argument number. The primitive desc owns it; empty if absent.
const_dnnl_memory_desc_t layout_of(const PrimitiveDesc& desc, int argument);
std::string kernel_of(const PrimitiveDesc& desc);

// A primitive with those of these tensors that it uses. Set addresses before each run.
class Primitive {
 public:
  Primitive(const PrimitiveDesc& desc, std::span<const int> arguments);
  void place(int argument, const void* address);  // no effect for a tensor that the primitive lacks
  void run();

 private:
  Owned<dnnl_primitive_t> primitive_;
  Owned<dnnl_stream_t> stream_;
  std::vector<Owned<dnnl_memory_t>> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Copies one layout into another.
class Reorder {
 public:
  Reorder(const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to);
  std::size_t scratch_bytes() const { return bytes_of(layout_of(desc_, DNNL_ARG_SCRATCHPAD)); }
  void prepare();  // once, before the first run
  void run(const void* from, void* to, void* scratch);

 private:
  PrimitiveDesc desc_;
  std::unique_ptr<Primitive> primitive_;
};

}  // namespace unroll::onednn

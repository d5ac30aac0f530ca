// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/primitives.h"

namespace unroll::onednn {

namespace {

dnnl_data_type_t type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl_bf16 : dtype == DType::f16 ? dnnl_f16 : dnnl_f32;
}

Desc make(const std::vector<std::int64_t>& dims, const std::int64_t* strides, DType dtype) {
  dnnl_dims_t sizes{}, steps{};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    sizes[i] = dims[i];
    if (strides) steps[i] = strides[i];
  }
  dnnl_memory_desc_t desc = nullptr;
  const int n = static_cast<int>(dims.size());
  const dnnl_status_t status =
      strides ? library().memory_desc_create_with_strides(&desc, n, sizes, type_of(dtype), steps)
              : library().memory_desc_create_with_tag(&desc, n, sizes, type_of(dtype), dnnl_format_tag_any);
  check(status, "describing a tensor");
  return Desc(desc);
}

}  // namespace

Desc make_desc(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides, DType dtype) {
  return make(dims, strides.data(), dtype);
}
Desc dense_desc(const std::vector<std::int64_t>& dims, DType dtype) {
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return make_desc(dims, strides, dtype);
}
Desc open_desc(const std::vector<std::int64_t>& dims, DType dtype) { return make(dims, nullptr, dtype); }

std::size_t bytes_of(const_dnnl_memory_desc_t desc) { return desc ? library().memory_desc_get_size(desc) : 0; }

Owned<dnnl_primitive_attr_t> caller_owns_scratch() {
  dnnl_primitive_attr_t attr = nullptr;
  check(library().primitive_attr_create(&attr), "making attributes");
  Owned<dnnl_primitive_attr_t> owned(attr);
  check(library().primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user), "setting attributes");
  return owned;
}

const_dnnl_memory_desc_t layout_of(const PrimitiveDesc& desc, int argument) {
  return library().primitive_desc_query_md(desc.get(), dnnl_query_exec_arg_md, argument);
}

std::string kernel_of(const PrimitiveDesc& desc) {
  const char* name = nullptr;
  check(library().primitive_desc_query(desc.get(), dnnl_query_impl_info_str, 0, &name), "asking for a name");
  return name;
}

Primitive::Primitive(const PrimitiveDesc& desc, std::span<const int> arguments) {
  dnnl_primitive_t primitive = nullptr;
  check(library().primitive_create(&primitive, desc.get()), "making a primitive");
  primitive_.reset(primitive);
  dnnl_stream_t stream = nullptr;
  check(library().stream_create(&stream, library().engine, dnnl_stream_default_flags), "making a stream");
  stream_.reset(stream);
  for (const int argument : arguments) {
    const const_dnnl_memory_desc_t layout = layout_of(desc, argument);
    if (bytes_of(layout) == 0) continue;
    dnnl_memory_t memory = nullptr;
    check(library().memory_create(&memory, layout, library().engine, DNNL_MEMORY_NONE), "describing memory");
    memories_.emplace_back(memory);
    arguments_.push_back({argument, memory});
  }
}

void Primitive::place(int argument, const void* address) {
  for (const dnnl_exec_arg_t& a : arguments_)
    if (a.arg == argument)
      check(library().memory_set_data_handle(a.memory, const_cast<void*>(address)), "placing memory");
}

void Primitive::run() {
  check(library().primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                                    arguments_.data()),
        "running a primitive");
  check(library().stream_wait(stream_.get()), "waiting for a primitive");
}

Reorder::Reorder(const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to) {
  const auto attr = caller_owns_scratch();
  dnnl_primitive_desc_t desc = nullptr;
  check(library().reorder_primitive_desc_create(&desc, from, library().engine, to, library().engine, attr.get()),
        "choosing a reorder");
  desc_.reset(desc);
}

void Reorder::prepare() {
  constexpr int k_arguments[] = {DNNL_ARG_FROM, DNNL_ARG_TO, DNNL_ARG_SCRATCHPAD};
  primitive_ = std::make_unique<Primitive>(desc_, k_arguments);
}

void Reorder::run(const void* from, void* to, void* scratch) {
  primitive_->place(DNNL_ARG_FROM, from);
  primitive_->place(DNNL_ARG_TO, to);
  primitive_->place(DNNL_ARG_SCRATCHPAD, scratch);
  primitive_->run();
}

}  // namespace unroll::onednn

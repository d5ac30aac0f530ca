// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/io/npy_header.h"
#include "core/support/checked_size.h"
#include "core/support/text/in_quotes.h"
#include "frontends/checkpoint/read/budgets.h"
#include "frontends/checkpoint/read/formats.h"
#include "frontends/checkpoint/read/views.h"
#include "unroll/support/error.h"

namespace unroll::checkpoint {

namespace {

constexpr std::string_view k_npy = ".npy";

constexpr std::pair<std::string_view, Stored> k_types[] = {
    {"<f4", Stored::f32}, {"<f8", Stored::f64}, {"<f2", Stored::f16}, {"<i8", Stored::i64}, {"<i4", Stored::i32},
    {"<i2", Stored::i16}, {"|i1", Stored::i8},  {"|u1", Stored::u8},  {"|b1", Stored::b8}};

std::vector<std::int64_t> strides_of(const NpyHeader& header, const std::string& file, const std::string& name) {
  std::vector<std::int64_t> strides(header.shape.size());
  CheckedSize elements = 1;
  const int n = static_cast<int>(strides.size());
  for (int k = 0; k < n; ++k) {
    const int axis = header.fortran_order ? k : n - 1 - k;
    strides[axis] = static_cast<std::int64_t>(elements.get().value_or(0));
    elements *= static_cast<std::uint64_t>(std::max<std::int64_t>(header.shape[axis], 1));
  }
  if (elements.get().value_or(k_max_file_bytes + 1) > k_max_file_bytes)
    throw Error(ErrorKind::input_file, file, "array " + in_quotes(name) + " has an impossible size", "Save it again");
  return strides;
}

NamedTensor read_array(std::span<const std::byte> bytes, const std::string& file, const std::string& name) {
  const NpyHeader header = parse_npy_header(bytes, file + ": " + name);
  const auto* const type = std::ranges::find(k_types, header.descr, &std::pair<std::string_view, Stored>::first);
  if (type == std::end(k_types) || header.shape.size() > Shape::k_max_rank) {
    const Error reason(ErrorKind::input_file, file,
                       "array " + in_quotes(name) + " has the type " + in_quotes(header.descr) + " and " +
                           std::to_string(header.shape.size()) + " axes",
                       "Save numbers, little-endian, with at most 6 axes; or leave the array out");
    return named_tensor(name, reason, header.descr, Shape());
  }
  const auto data = bytes.subspan(header.data_offset);
  TensorView view{.type = type->second,
                  .key = name,
                  .count = static_cast<std::int64_t>(data.size() / stored_bytes(type->second)),
                  .sizes = header.shape,
                  .strides = strides_of(header, file, name)};
  check_view(view, file, name);
  return read_view(view, data, file, name);
}

}  // namespace

bool is_npz(const ZipFile& zip) {
  return !zip.entries().empty() &&
         std::ranges::all_of(zip.entries(), [](const auto& entry) { return entry.first.ends_with(k_npy); });
}

Checkpoint parse_npz(const ZipFile& zip, const std::string& name) {
  std::vector<std::pair<std::uint64_t, std::string>> in_order;
  for (const auto& [entry, about] : zip.entries()) in_order.emplace_back(about.offset, entry);
  std::ranges::sort(in_order);
  Checkpoint checkpoint{.tensors = {}, .in_order = true, .skipped = {}};
  std::size_t unpacked_bytes = 0;
  for (const auto& [offset, entry] : in_order) {
    std::vector<std::byte> unpacked;
    const auto bytes = zip.read(entry, k_max_file_bytes - unpacked_bytes, unpacked);
    unpacked_bytes += unpacked.size();
    checkpoint.tensors.push_back(read_array(bytes, name, entry.substr(0, entry.size() - k_npy.size())));
  }
  return checkpoint;
}

}  // namespace unroll::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "core/io/safetensors_header.h"
#include "core/support/checked_size.h"
#include "core/support/formats.h"
#include "core/support/text/in_quotes.h"
#include "frontends/checkpoint/budgets.h"
#include "frontends/checkpoint/pickle.h"
#include "frontends/checkpoint/zip.h"
#include "unroll/ir/attributes.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::checkpoint {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& what, std::string_view next) {
  throw Error(ErrorKind::input_file, file, what, next);
}

// Copies a row of a tensor: n elements, `stride` apart. Returns the first index whose value does not fit, or n.
using CopyRow = std::int64_t (*)(const std::byte* from, std::int64_t stride, Tensor& to, std::int64_t at,
                                 std::int64_t n);

template <class From, class To, auto convert>
std::int64_t copy_row(const std::byte* from, std::int64_t stride, Tensor& to, std::int64_t at, std::int64_t n) {
  To* out = to.values<To>().data() + at;
  for (std::int64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * stride * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    if (!convert(value, out[i])) return i;
  }
  return n;
}
template <class T>
bool same(T from, T& to) {
  to = from;
  return true;
}
template <class T>
bool narrow(T from, std::int32_t& to) {
  to = static_cast<std::int32_t>(from);
  return static_cast<T>(to) == from;
}
template <class T>
bool widen(T from, float& to) {
  to = to_float(from);
  return true;
}
bool truth(std::uint8_t from, std::uint8_t& to) {
  to = from;
  return from <= 1;
}

struct ReadRow {
  DType dtype;
  CopyRow copy;
};
// In the order of Stored.
constexpr ReadRow k_reads[] = {{DType::f32, copy_row<float, float, same<float>>},
                               {DType::f64, copy_row<double, double, same<double>>},
                               {DType::f32, copy_row<F16, float, widen<F16>>},
                               {DType::f32, copy_row<Bf16, float, widen<Bf16>>},
                               {DType::i32, copy_row<std::int64_t, std::int32_t, narrow<std::int64_t>>},
                               {DType::i32, copy_row<std::int32_t, std::int32_t, same<std::int32_t>>},
                               {DType::i32, copy_row<std::int16_t, std::int32_t, narrow<std::int16_t>>},
                               {DType::i32, copy_row<std::int8_t, std::int32_t, narrow<std::int8_t>>},
                               {DType::i32, copy_row<std::uint8_t, std::int32_t, narrow<std::uint8_t>>},
                               {DType::b8, copy_row<std::uint8_t, std::uint8_t, truth>}};

std::string stored_text(const TensorView& view) {
  std::string text(stored_name(view.type));
  for (std::size_t k = 0; k < view.sizes.size(); ++k) text += (k == 0 ? "[" : ",") + std::to_string(view.sizes[k]);
  return text + (view.sizes.empty() ? "[]" : "]");
}

// Throws unless every element lies in the storage and none is read twice.
std::int64_t check_view(const TensorView& view, const std::string& file, const std::string& name) {
  const std::string who = "tensor '" + name + "' " + stored_text(view);
  if (view.sizes.size() != view.strides.size()) refuse(file, who + " has strides of another rank", "Save it again");
  CheckedSize elements = 1, last = static_cast<std::uint64_t>(std::max<std::int64_t>(view.offset, 0));
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, size
  bool is_valid = view.offset >= 0, is_empty = false;
  for (std::size_t k = 0; k < view.sizes.size(); ++k) {
    const std::int64_t size = view.sizes[k], stride = view.strides[k];
    is_valid &= size >= 0 && size <= Shape::k_max_dimension && stride >= 0;
    if (!is_valid) break;
    is_empty |= size == 0;
    elements *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (size > 1) last += CheckedSize(static_cast<std::uint64_t>(size - 1)) * static_cast<std::uint64_t>(stride);
    if (size > 1) axes.emplace_back(stride, size);
  }
  constexpr std::uint64_t k_most = std::uint64_t{1} << 62;  // of a Shape
  if (!is_valid || elements.get().value_or(k_most) >= k_most)
    refuse(file, who + " has an impossible size or stride", "Save it again");
  if (is_empty) return 0;
  if (!last.get() || *last.get() >= static_cast<std::uint64_t>(view.count))
    refuse(file, who + " reaches beyond its storage of " + std::to_string(view.count) + " elements", "Save it again");
  // Sorted by stride, each axis must step over all inner axes.
  std::sort(axes.begin(), axes.end());
  std::int64_t extent = 0;  // last index of the axes so far; at most that of the storage
  for (const auto& [stride, size] : axes) {
    if (stride <= extent)
      refuse(file, who + " reads an element of its storage twice, as after expand()", "Save it with .contiguous()");
    extent += stride * (size - 1);
  }
  return static_cast<std::int64_t>(*elements.get());
}

Tensor read_view(const TensorView& view, std::span<const std::byte> storage, const std::string& file,
                 const std::string& name) {
  const ReadRow& row = k_reads[static_cast<int>(view.type)];
  Tensor tensor(row.dtype, Shape(view.sizes));
  const auto rank = view.sizes.size();
  const std::int64_t n = rank == 0 ? 1 : view.sizes.back(), stride = rank == 0 ? 1 : view.strides.back();
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t at = 0; at < tensor.elements(); at += n) {
    std::int64_t from = view.offset;
    for (std::size_t k = 0; k + 1 < rank; ++k) from += index[k] * view.strides[k];
    const std::size_t bytes = from * stored_bytes(view.type);
    const std::int64_t done = row.copy(storage.data() + bytes, stride, tensor, at, n);
    if (done != n)
      refuse(file, "tensor '" + name + "' " + stored_text(view) + " has an element that does not fit " +
                       std::string(dtype_name(row.dtype)) + ": element " + std::to_string(at + done),
             "Leave the tensor out of the file");
    for (std::size_t k = rank; k-- > 1;) {
      if (++index[k - 1] < view.sizes[k - 1]) break;
      index[k - 1] = 0;
    }
  }
  return tensor;
}

// Entries of an archive are in one folder, such as "archive/data.pkl".
std::string folder_of(const ZipFile& zip, const std::string& file) {
  constexpr std::string_view k_pickle = "/data.pkl";
  std::string folder;
  for (const auto& [name, entry] : zip.entries()) {
    if (!name.ends_with(k_pickle) || name.find('/') != name.size() - k_pickle.size()) continue;
    if (!folder.empty()) refuse(file, "the zip file holds several checkpoints", "Keep one of them");
    folder = name.substr(0, name.size() - k_pickle.size() + 1);
  }
  if (folder.empty())
    refuse(file, "the zip file has no entry FOLDER/data.pkl, so torch.save did not write it",
           "Save a state dict: torch.save(model.state_dict(), FILE)");
  return folder;
}

void require_little_endian(const ZipFile& zip, const std::string& folder, const std::string& file) {
  if (!zip.entries().contains(folder + "byteorder")) return;  // PyTorch before 2.1
  std::vector<std::byte> unpacked;
  const auto bytes = zip.read(folder + "byteorder", 16, unpacked);
  if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != "little")
    refuse(file, "the data are big-endian", "Load and save the file on a little-endian machine");
}

NamedTensor named(const std::string& name, Result<Tensor> tensor, std::string stored, Shape shape) {
  if (!tensor && tensor.error().kind() != ErrorKind::input_file) throw_error(tensor.error());
  if (!tensor) return {name, {}, std::move(stored), std::move(shape), tensor.error()};
  return {name, *std::move(tensor), std::move(stored), std::move(shape), std::nullopt};
}

Checkpoint parse_torch(std::span<const std::byte> file, const std::string& name) {
  const ZipFile zip(file, name);
  const std::string folder = folder_of(zip, name);
  require_little_endian(zip, folder, name);
  std::vector<std::byte> unpacked;
  const std::vector<NamedView> views = read_pickle(zip.read(folder + "data.pkl", k_max_pickle_bytes, unpacked), name);
  std::map<std::string, std::vector<std::byte>> unpacked_storages;
  std::map<std::string, std::span<const std::byte>> storages;
  Checkpoint checkpoint{.tensors = {}, .in_order = true};
  CheckedSize made = 0, held = 0;
  for (const auto& [tensor_name, view] : views) {
    const std::int64_t elements = check_view(view, name, tensor_name);
    if (!storages.contains(view.key)) {
      const auto bytes = zip.read(folder + "data/" + view.key, k_max_file_bytes, unpacked_storages[view.key]);
      storages.emplace(view.key, bytes);
      held += bytes.size();
    }
    const auto storage = storages.at(view.key);
    if ((CheckedSize(static_cast<std::uint64_t>(view.count)) * stored_bytes(view.type)).get() != storage.size())
      refuse(name, "tensor '" + tensor_name + "': its storage " + in_quotes(view.key) + " has " +
                       std::to_string(storage.size()) + " bytes; " + std::to_string(view.count) + " elements of " +
                       std::string(stored_name(view.type)) + " are described",
             "Save the file again");
    made += CheckedSize(static_cast<std::uint64_t>(elements)) * stored_bytes(view.type);
    if (made.require(ErrorKind::input_file, name, "sizes overflow") / k_max_sharing >
        held.require(ErrorKind::input_file, name, "sizes overflow"))
      refuse(name, "tensor '" + tensor_name + "': tensors share storages more than " + std::to_string(k_max_sharing) +
                       " times",
             "Save each tensor with .clone()");
    // clang 14 captures no structured binding by reference.
    Result<Tensor> tensor = attempt([&, &view = view, &tensor_name = tensor_name] {
      return read_view(view, storage, name, tensor_name);
    });
    checkpoint.tensors.push_back(named(tensor_name, std::move(tensor), stored_text(view), Shape(view.sizes)));
  }
  return checkpoint;
}

Checkpoint parse_tied(std::span<const std::byte> file, const std::string& name) {
  const FileHeader header = parse_safetensors_header(file, name);
  Checkpoint checkpoint;
  const auto add = [&](const std::string& tensor_name, const std::string& entry, const std::string& tied) {
    const FileEntry& e = header.entries.at(entry);
    Shape shape;
    if (e.shape.size() <= std::size_t{Shape::k_max_rank}) shape = Shape(Ints(e.shape.begin(), e.shape.end()));
    Result<Tensor> tensor = attempt([&] { return read_entry(file, header, entry, name); });
    checkpoint.tensors.push_back(named(tensor_name, std::move(tensor), e.text() + tied, std::move(shape)));
  };
  for (const auto& [entry, where] : header.entries) add(entry, entry, "");
  const auto has = [&](const std::string& entry) { return header.entries.contains(entry); };
  for (const auto& [alias, kept] : tied_tensors(header.metadata, has, name)) add(alias, kept, ", tied to " + kept);
  return checkpoint;
}

// True for files of PyTorch before 1.6, or without its zip serialization: a pickle that begins with this number.
bool begins_old_format(std::span<const std::byte> file) {
  constexpr std::array<unsigned char, 14> k_begin = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                                     0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
  return file.size() >= k_begin.size() && std::memcmp(file.data(), k_begin.data(), k_begin.size()) == 0;
}

}  // namespace

Checkpoint parse_checkpoint(std::span<const std::byte> file, const std::string& name) {
  if (begins_old_format(file))
    refuse(name, "the file has the format of PyTorch before 1.6, which is not a zip file",
           "Convert it in Python: torch.save(torch.load(FILE, weights_only=True), NEW_FILE)");
  return begins_zip(file) ? parse_torch(file, name) : parse_tied(file, name);
}

Checkpoint load_checkpoint(const std::string& path, Vfs& vfs) {
  const Bytes file = vfs.read(path, k_max_file_bytes);
  return parse_checkpoint({file.data(), file.size()}, path);
}

}  // namespace unroll::checkpoint

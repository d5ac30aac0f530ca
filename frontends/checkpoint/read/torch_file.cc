// SPDX-License-Identifier: Apache-2.0
// Files of torch.save and torch.jit.save. Before PyTorch 1.6 a file was a row of pickles, a magic number, the protocol,
// the machine, the object and the keys of its storages, and then the storages: a size in elements and the bytes
// (torch/serialization.py, _legacy_save).
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "core/support/checked_size.h"
#include "frontends/checkpoint/read/budgets.h"
#include "frontends/checkpoint/read/formats.h"
#include "frontends/checkpoint/read/pickle.h"
#include "frontends/checkpoint/read/pickle_machine.h"
#include "frontends/checkpoint/read/views.h"
#include "unroll/support/error.h"

namespace unroll::checkpoint {

namespace {

using StorageReader = std::function<std::span<const std::byte>(const TensorView&)>;

// Entries of an archive are in one folder, such as "archive/data.pkl".
std::string folder_of(const ZipFile& zip, const std::string& file) {
  constexpr std::string_view k_pickle = "/data.pkl";
  std::string folder;
  for (const auto& [name, entry] : zip.entries()) {
    if (!name.ends_with(k_pickle) || name.find('/') != name.size() - k_pickle.size()) continue;
    if (!folder.empty()) damaged(file, "the zip file holds several checkpoints", "Keep one of them");
    folder = name.substr(0, name.size() - k_pickle.size() + 1);
  }
  if (folder.empty())
    damaged(file, "the zip file has no entry FOLDER/data.pkl, so torch.save did not write it",
           "Save a state dict: torch.save(model.state_dict(), FILE)");
  return folder;
}

void require_little_endian(const ZipFile& zip, const std::string& folder, const std::string& file) {
  if (!zip.entries().contains(folder + "byteorder")) return;  // PyTorch before 2.1
  std::vector<std::byte> unpacked;
  const auto bytes = zip.read(folder + "byteorder", 16, unpacked);
  if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != "little")
    damaged(file, "the data are big-endian", "Load and save the file on a little-endian machine");
}

// Tensors may share storages, within k_max_sharing.
Checkpoint read_tensors(const PickleTensors& pickled, const StorageReader& read, const std::string& name) {
  std::map<std::string, std::span<const std::byte>> storages;
  Checkpoint checkpoint{.tensors = {}, .in_order = true, .skipped = {pickled.skipped.begin(), pickled.skipped.end()}};
  CheckedSize made = 0, held = 0;
  for (const auto& [tensor_name, view] : pickled.tensors) {
    const std::int64_t elements = check_view(view, name, tensor_name);
    if (!storages.contains(view.key)) {
      storages.emplace(view.key, read(view));
      held += storages.at(view.key).size();
    }
    made += CheckedSize(static_cast<std::uint64_t>(elements)) * stored_bytes(view.type);
    if (made.require(ErrorKind::input_file, name, "sizes overflow") / k_max_sharing >
        held.require(ErrorKind::input_file, name, "sizes overflow"))
      damaged(name, "tensor '" + tensor_name + "': tensors share storages more than " + std::to_string(k_max_sharing) +
                       " times",
             "Save each tensor with .clone()");
    checkpoint.tensors.push_back(read_view(view, storages.at(view.key), name, tensor_name));
  }
  return checkpoint;
}

constexpr std::array<unsigned char, 15> k_old_begin = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                       0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

// The pickles of the old form that are no tensors.
class OldFile {
 public:
  OldFile(std::span<const std::byte> file, const std::string& name)
      : rest_(file.subspan(k_old_begin.size())), name_(name) {
    const PickleMachine protocol = next();
    constexpr std::int64_t k_protocol = 1001;
    if (root(protocol).integer != k_protocol)
      damaged(name_, "the file has another protocol than PyTorch before 1.6", "Save it again");
    const PickleMachine machine = next();
    const PickleValue& about = root(machine);
    for (std::size_t i = 0; about.kind == PickleValue::Kind::dict && i < about.items.size(); i += 2)
      if (machine.value(about.items[i]).text == "little_endian" && machine.value(about.items[i + 1]).integer == 0)
        damaged(name_, "the data are big-endian", "Load and save the file on a little-endian machine");
  }
  PickleTensors tensors() {
    PickleTensors read = read_pickle(limited(), name_);
    rest_ = rest_.subspan(read.end);
    return read;
  }
  // The bytes of each storage. `types` are those that the pickle of the object names.
  std::map<std::string, std::span<const std::byte>> storages(const std::map<std::string, Stored>& types) {
    const PickleMachine keys = next();
    std::map<std::string, std::span<const std::byte>> storages;
    for (const ValueIndex key : root(keys).items) {
      const std::string text(keys.value(key).text);
      std::uint64_t n = 0;
      std::memcpy(&n, take(sizeof n).data(), sizeof n);
      const auto type = types.find(text);
      if (type == types.end())
        damaged(name_, "the file has a storage '" + text.substr(0, 100) + "' without a type that is read",
               "Save a state dict: torch.save(model.state_dict(), FILE)");
      const auto bytes = (CheckedSize(n) * stored_bytes(type->second)).get();
      if (!bytes) damaged(name_, "the size of storage '" + text.substr(0, 100) + "' overflows", "Copy the file again");
      storages[text] = take(*bytes);
    }
    return storages;
  }

 private:
  std::span<const std::byte> limited() const { return rest_.first(std::min(rest_.size(), k_max_pickle_bytes)); }
  std::span<const std::byte> take(std::size_t n) {
    if (n > rest_.size()) damaged(name_, "the file ends too early", "Copy it again");
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }
  PickleMachine next() {
    PickleMachine machine(limited(), name_);
    root_ = machine.run();
    rest_ = rest_.subspan(machine.end());
    return machine;
  }
  const PickleValue& root(const PickleMachine& machine) const { return machine.value(root_); }

  std::span<const std::byte> rest_;
  std::string name_;
  ValueIndex root_ = 0;
};

}  // namespace

Checkpoint parse_torch(const ZipFile& zip, const std::string& name) {
  const std::string folder = folder_of(zip, name);
  require_little_endian(zip, folder, name);
  std::vector<std::byte> unpacked;
  const PickleTensors pickled = read_pickle(zip.read(folder + "data.pkl", k_max_pickle_bytes, unpacked), name);
  std::map<std::string, std::vector<std::byte>> storages;
  const auto read = [&](const TensorView& view) {
    return zip.read(folder + "data/" + view.key, k_max_file_bytes, storages[view.key]);
  };
  return read_tensors(pickled, read, name);
}

bool begins_old_torch(std::span<const std::byte> file) {
  return file.size() >= k_old_begin.size() && std::memcmp(file.data(), k_old_begin.data(), k_old_begin.size()) == 0;
}

Checkpoint parse_old_torch(std::span<const std::byte> file, const std::string& name) {
  OldFile old(file, name);
  const PickleTensors pickled = old.tensors();
  const auto storages = old.storages(pickled.storages);
  const auto read = [&](const TensorView& view) {
    const auto found = storages.find(view.key);
    if (found == storages.end()) damaged(name, "the file lacks the storage '" + view.key + "'", "Copy it again");
    return found->second;
  };
  return read_tensors(pickled, read, name);
}

}  // namespace unroll::checkpoint

// SPDX-License-Identifier: Apache-2.0
// Reads the header with nlohmann's event interface. Without a tree, excessive nesting, counts and duplicates are
// refused at their byte position.
#include "core/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/support/checked_size.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bits;
};
// All types of the format (safetensors 0.6). The size of an unknown type follows from its range.
constexpr DTypeRow k_dtypes[] = {
    {"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},       {"I64", 64},        {"I32", 32},
    {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32},        {"U16", 16},        {"U8", 8},
    {"BOOL", 8},    {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"F8_E5M2FNUZ", 8}};

constexpr std::string_view k_metadata = "__metadata__";
constexpr std::string_view k_next = "The file is damaged or was not written as safetensors: write or download it again";

[[noreturn]] void reject(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::input_file, file, what, k_next);
}

// The JSON events of one header. Depth 1 is the list of tensors, depth 2 an entry or the metadata, depth 3 the
// numbers of a shape or of data_offsets; values of keys the format does not know are skipped.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(const std::string& file, FileHeader& header) : file_(file), header_(header) {}

  bool key(std::string& name) override {
    if (skipping()) return true;
    if (depth_ == 1) return start_entry(name);
    if (in_metadata_) {
      if (header_.metadata.contains(name)) fail("has the metadata key " + in_quotes(name) + " twice");
      count_entry();
      metadata_key_ = name;
      return true;
    }
    field_ = field_of(name);
    if (field_ == Field::unknown) {
      skip_above_ = depth_;
    } else if (std::exchange(seen_[static_cast<std::size_t>(field_)], true)) {
      fail_entry("has the key " + in_quotes(name) + " twice");
    }
    return true;
  }

  bool string(std::string& text) override {
    if (skip_value()) return true;
    if (depth_ == 2 && in_metadata_) {
      header_.metadata.emplace(metadata_key_, text);
      return true;
    }
    if (depth_ != 2 || field_ != Field::dtype) unexpected("a string");
    entry_.dtype = text;
    return true;
  }

  bool number_unsigned(std::uint64_t number) override {
    if (skip_value()) return true;
    if (depth_ != 3) unexpected("a number");
    if (field_ == Field::data_offsets && numbers_.size() == 2) fail_entry("has more than two data_offsets");
    if (numbers_.size() == k_max_dimensions) fail_entry("has more than 64 dimensions");
    numbers_.push_back(number);
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 && !skipping()) unexpected("an object");
    return deeper();
  }
  bool end_object() override {
    --depth_;
    if (end_skip()) return true;
    if (depth_ == 1 && !std::exchange(in_metadata_, false)) finish_entry();
    return true;
  }
  bool start_array(std::size_t) override {
    if (!skipping() && (depth_ != 2 || in_metadata_ || field_ == Field::dtype)) unexpected("a list");
    numbers_.clear();
    return deeper();
  }
  bool end_array() override {
    --depth_;
    if (end_skip()) return true;
    if (field_ == Field::shape) entry_.shape = numbers_;
    if (field_ == Field::data_offsets) {
      if (numbers_.size() != 2) fail_entry("must have two data_offsets, has " + std::to_string(numbers_.size()));
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
      if (entry_.begin > entry_.end)
        fail_entry("has data_offsets [" + std::to_string(entry_.begin) + "," + std::to_string(entry_.end) +
                   "] that fall");
    }
    return true;
  }

  bool null() override { return skip_value() || unexpected("null"); }
  bool boolean(bool) override { return skip_value() || unexpected("true or false"); }
  bool number_integer(std::int64_t number) override {
    return skip_value() || unexpected("the number " + std::to_string(number));
  }
  bool number_float(double, const std::string& text) override {
    return skip_value() || unexpected("the number " + in_quotes(text));
  }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception&) override {
    fail("must have a header of valid UTF-8 JSON; wrong at header byte " + std::to_string(position) + ", at " +
         in_quotes(token));
  }

 private:
  enum class Field : std::uint8_t { dtype, shape, data_offsets, unknown };
  static constexpr std::array<std::string_view, 3> k_fields{"dtype", "shape", "data_offsets"};

  static Field field_of(std::string_view name) {
    return static_cast<Field>(std::find(k_fields.begin(), k_fields.end(), name) - k_fields.begin());
  }

  [[noreturn]] void fail(const std::string& what) const { reject(file_, what); }
  [[noreturn]] void fail_entry(const std::string& what) const { fail("entry " + in_quotes(name_) + " " + what); }
  [[noreturn]] bool unexpected(const std::string& what) const {
    if (depth_ == 0) fail("must start with a JSON object, has " + what);
    if (depth_ == 1) fail_entry("must be an object, is " + what);
    if (in_metadata_) fail("must have strings as metadata, has " + what + " under " + in_quotes(metadata_key_));
    fail_entry("has " + what + " in '" + std::string(k_fields[static_cast<std::size_t>(field_)]) + "'");
  }

  bool skipping() const { return skip_above_ >= 0; }
  // True if the value just read belongs to an unknown key; a plain value ends the skipping.
  bool skip_value() {
    const bool skip = skipping();
    end_skip();
    return skip;
  }
  // True if the object or array just closed lies within the value of an unknown key.
  bool end_skip() {
    if (!skipping()) return false;
    if (depth_ == skip_above_) skip_above_ = -1;
    return true;
  }
  bool deeper() {
    if (++depth_ > k_max_header_depth) fail("has a header nested deeper than " + std::to_string(k_max_header_depth));
    return true;
  }
  void count_entry() {
    if (++n_entries_ > k_max_entries) fail("has more than " + std::to_string(k_max_entries) + " entries");
  }

  bool start_entry(const std::string& name) {
    name_ = name;
    if (header_.entries.contains(name) || (name == k_metadata && seen_metadata_)) fail_entry("is there twice");
    count_entry();
    in_metadata_ = name == k_metadata;
    seen_metadata_ |= in_metadata_;
    entry_ = {};
    seen_ = {};
    return true;
  }

  void finish_entry() {
    for (std::size_t i = 0; i < seen_.size(); ++i)
      if (!seen_[i]) fail_entry("lacks '" + std::string(k_fields[i]) + "'");
    CheckedSize elements = 1;
    for (const std::uint64_t d : entry_.shape) elements *= d;
    const auto row = std::ranges::find(k_dtypes, entry_.dtype, &DTypeRow::name);
    const std::size_t span = entry_.end - entry_.begin;
    const bool is_known = row != std::end(k_dtypes);
    const auto bits = (elements * (is_known ? row->bits : 1)).get();
    if (!bits || *bits > std::numeric_limits<std::size_t>::max() / 4) fail_entry("has a shape whose size overflows");
    if (is_known && *bits % 8 != 0) fail_entry("has a shape that ends within a byte");
    if (is_known && *bits / 8 != span)
      fail_entry("needs " + std::to_string(*bits / 8) + " bytes by its shape and dtype, its data_offsets span " +
                 std::to_string(span));
    header_.entries.emplace(name_, entry_);
  }

  const std::string& file_;
  FileHeader& header_;
  int depth_ = 0;
  int skip_above_ = -1;  // depth of the unknown key whose value is being skipped
  std::size_t n_entries_ = 0;
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  std::string name_;
  std::string metadata_key_;
  Field field_ = Field::unknown;
  std::array<bool, k_fields.size()> seen_{};
  FileEntry entry_;
  std::vector<std::uint64_t> numbers_;
};

// Sorted by offset, the entries must cover the data part without gap or overlap.
void check_coverage(const FileHeader& header, std::size_t data_bytes, const std::string& file) {
  std::vector<const std::pair<const std::string, FileEntry>*> order;
  for (const auto& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::size_t at = 0;
  for (const auto* entry : order) {
    const auto& [name, e] = *entry;
    if (e.begin != at)
      reject(file, "entry " + in_quotes(name) +
                       (e.begin < at ? " overlaps the one before it" : " leaves a hole before it") +
                       ": it starts at data byte " + std::to_string(e.begin) + ", expected " + std::to_string(at));
    if (e.end > data_bytes)
      reject(file, "entry " + in_quotes(name) + " ends at data byte " + std::to_string(e.end) + ", the file has " +
                       std::to_string(data_bytes));
    at = e.end;
  }
  if (at != data_bytes)
    reject(file, "has " + std::to_string(data_bytes) + " bytes of data, its entries cover " + std::to_string(at));
}

std::size_t header_length(std::span<const std::byte> file, const std::string& file_name) {
  if (file.size() < 8)
    reject(file_name,
           "has " + std::to_string(file.size()) + " bytes; a safetensors file starts with 8 bytes of header length");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > k_max_header_bytes)
    reject(file_name, "claims a header of " + std::to_string(length) + " bytes; at most 100000000 are allowed");
  if (length > file.size() - 8)
    reject(file_name, "claims a header of " + std::to_string(length) + " bytes, but ends after " +
                          std::to_string(file.size() - 8));
  return static_cast<std::size_t>(length);
}

}  // namespace

std::string FileEntry::text() const {
  std::string text = dtype == "BOOL" ? "b8" : dtype;
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (std::size_t k = 0; k < shape.size(); ++k) text += (k == 0 ? "[" : ",") + std::to_string(shape[k]);
  return text + (shape.empty() ? "[]" : "]");
}

std::map<std::string, std::string> tied_tensors(const std::map<std::string, std::string>& metadata,
                                                const std::function<bool(const std::string&)>& has,
                                                const std::string& file_name) {
  // "lstm.weight_ih_l0" ends in a parameter name of PyTorch.
  const auto names_parameter = [](std::string_view name) {
    const std::string_view leaf = name.substr(name.rfind('.') + 1);
    return leaf.starts_with("weight") || leaf.starts_with("bias");
  };
  std::map<std::string, std::string> tied;
  for (const auto& [alias, kept] : metadata) {
    if (has(alias)) continue;
    if (has(kept)) tied.emplace(alias, kept);
    else if (names_parameter(alias) && names_parameter(kept))
      throw Error(ErrorKind::input_file, file_name,
                  "the metadata tie " + in_quotes(alias) + " to " + in_quotes(kept) + ", which the file does not have",
                  "Save the model again with safetensors.torch.save_model");
  }
  return tied;
}

FileHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name) {
  const std::size_t length = header_length(file, file_name);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (!text.starts_with('{')) reject(file_name, "must have a header that starts with '{'");
  // The JSON reader stops at a zero byte and would not see the rest.
  if (text.find('\0') != text.npos) reject(file_name, "has a zero byte in its header");
  FileHeader header;
  header.data_offset = 8 + length;
  HeaderEvents events(file_name, header);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events)) reject(file_name, "has a header that is not JSON");
  check_coverage(header, file.size() - header.data_offset, file_name);
  return header;
}

}  // namespace unroll

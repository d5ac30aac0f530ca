// SPDX-License-Identifier: Apache-2.0
// Parts of the reader: budgets, and fields that several messages share.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <string>

#include "frontends/onnx/budgets.h"
#include "frontends/onnx/model.h"
#include "unroll/support/error.h"

namespace unroll::onnx {

struct Reading {
  const std::string& file;
  const ExternalData& external;
  std::int64_t objects = 0;
  std::int64_t listed_elements = 0;
  std::uint64_t external_bytes = 0;
  bool has_halves = false;
  std::map<const Tensor*, int> narrow_types = {};

  [[noreturn]] void refuse(const std::string& what, const std::string& next = {}) const {
    throw Error(ErrorKind::input_file, file, what, next);
  }
  void note_type(std::int64_t code) { has_halves = has_halves || code == k_float16 || code == k_bfloat16; }
  void count(std::int64_t n = 1) {
    objects += n;
    if (objects > k_max_objects) refuse("more than " + std::to_string(k_max_objects) + " objects");
  }
};

// A field number with its wire type, for switch.
constexpr std::uint32_t field(std::uint32_t tag, protozero::pbf_wire_type type) {
  return protozero::tag_and_type(tag, type);
}
inline constexpr auto k_varint = protozero::pbf_wire_type::varint;
inline constexpr auto k_bytes = protozero::pbf_wire_type::length_delimited;
inline constexpr auto k_fixed32 = protozero::pbf_wire_type::fixed32;
inline constexpr auto k_fixed64 = protozero::pbf_wire_type::fixed64;

// A field limits a message to INT32_MAX bytes; each function reads one message to its end.
std::shared_ptr<const Tensor> read_tensor(Reading& reading, protozero::pbf_reader message, std::string& name);
std::pair<std::string, std::string> read_entry(protozero::pbf_reader message);  // StringStringEntryProto

}  // namespace unroll::onnx

// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/module.h"

#include <cstring>

namespace unroll::vulkan {

namespace {

// Numbers of the specification that operands use.
constexpr std::uint32_t k_spirv_magic = 0x07230203, k_version_1_3 = 0x00010300;
constexpr std::uint32_t k_shader = 1, k_storage_16_bit = 4433, k_preserve_nan = 4466;  // capabilities
constexpr std::uint32_t k_glcompute = 5, k_local_size_mode = 17, k_mode_nan = 4461;    // execution model, modes
constexpr std::uint32_t k_input = 1, k_workgroup = 4, k_function_class = 7, k_push_constant = 9, k_storage_buffer = 12;
constexpr std::uint32_t k_block = 2, k_array_stride = 6, k_builtin = 11, k_aliased = 20, k_coherent = 23,
                        k_binding = 33, k_set = 34, k_offset = 35, k_no_contraction = 42;  // decorations

std::uint32_t header(Spv op, std::size_t n_words) {
  return static_cast<std::uint32_t>(n_words << 16) | static_cast<std::uint32_t>(op);
}
void append(Words& to, Spv op, const std::vector<Id>& operands) {
  to.push_back(header(op, operands.size() + 1));
  to.insert(to.end(), operands.begin(), operands.end());
}
void append_text(std::vector<Id>& to, const char* text) {
  const std::size_t n = std::strlen(text) + 1;
  std::vector<Id> words((n + 3) / 4, 0);
  std::memcpy(words.data(), text, n);
  to.insert(to.end(), words.begin(), words.end());
}

}  // namespace

Module::Module(const ModuleOptions& options) : options_(options) {
  glsl_ = new_id();
  main_ = new_id();
  const Id word = type(Kind::u32);
  const Id block_pointer = block_of(word, 4);
  word_pointer_ = pointer(k_storage_buffer, word);
  for (int b = 0; b < options.buffers; ++b) buffers_.push_back(buffer(block_pointer, b));
  const Id push_block = declare(Spv::type_struct, std::vector<Id>(options.push_words, word));
  append(decorations_, Spv::decorate, {push_block, k_block});
  for (Id m = 0; m < static_cast<Id>(options.push_words); ++m)
    append(decorations_, Spv::member_decorate, {push_block, m, k_offset, 4 * m});
  push_ = global(k_push_constant, pointer(k_push_constant, push_block));
  push_pointer_ = pointer(k_push_constant, word);
}

Id Module::block_of(Id element, std::uint32_t bytes) {
  const Id elements = declare(Spv::type_runtime_array, {element});
  append(decorations_, Spv::decorate, {elements, k_array_stride, bytes});
  const Id block = declare(Spv::type_struct, {elements});
  append(decorations_, Spv::decorate, {block, k_block});
  append(decorations_, Spv::member_decorate, {block, 0, k_offset, 0});
  return pointer(k_storage_buffer, block);
}

Id Module::buffer(Id block_pointer, int binding) {
  const Id made = global(k_storage_buffer, block_pointer);
  append(decorations_, Spv::decorate, {made, k_set, 0});
  append(decorations_, Spv::decorate, {made, k_binding, static_cast<Id>(binding)});
  append(decorations_, Spv::decorate, {made, k_aliased});
  if (binding == options_.coherent) append(decorations_, Spv::decorate, {made, k_coherent});
  return made;
}

Id Module::declare(Spv op, const std::vector<Id>& operands, bool typed) {
  Words key{static_cast<std::uint32_t>(op)};
  key.insert(key.end(), operands.begin(), operands.end());
  const auto [at, added] = declared_.try_emplace(key, 0);
  if (!added) return at->second;
  const Id id = at->second = new_id();
  std::vector<Id> all = operands;
  all.insert(all.begin() + (typed ? 1 : 0), id);  // constants have their type before their id
  append(declarations_, op, all);
  return id;
}

Id Module::type(Kind kind) {
  switch (kind) {
    case Kind::boolean: return declare(Spv::type_bool, {});
    case Kind::i32: return declare(Spv::type_int, {32, 1});
    case Kind::u32: return declare(Spv::type_int, {32, 0});
    case Kind::f32: return declare(Spv::type_float, {32});
  }
  return 0;
}

Id Module::constant(Kind kind, std::uint32_t bits) {
  if (kind == Kind::boolean) return declare(bits ? Spv::constant_true : Spv::constant_false, {type(kind)}, true);
  return declare(Spv::constant, {type(kind), bits}, true);
}

Id Module::pointer(std::uint32_t storage_class, Id to) { return declare(Spv::type_pointer, {storage_class, to}); }

Id Module::global(std::uint32_t storage_class, Id type) {
  const Id id = new_id();
  append(declarations_, Spv::variable, {type, id, storage_class});
  return id;
}

Id Module::emit(Spv op, Id type, const std::vector<Id>& operands) {
  const Id id = new_id();
  std::vector<Id> all{type, id};
  all.insert(all.end(), operands.begin(), operands.end());
  append(body_, op, all);
  return id;
}
Id Module::emit(Ext function, Kind kind, const std::vector<Id>& operands) {
  std::vector<Id> all{glsl_, static_cast<Id>(function)};
  all.insert(all.end(), operands.begin(), operands.end());
  return emit(Spv::ext_inst, type(kind), all);
}
void Module::emit_plain(Spv op, const std::vector<Id>& operands) { append(body_, op, operands); }
void Module::no_contraction(Id id) { append(decorations_, Spv::decorate, {id, k_no_contraction}); }

Id Module::buffer_word(int buffer, Id index) {
  return emit(Spv::access_chain, word_pointer_, {buffers_[buffer], constant(Kind::u32, 0), index});
}
Id Module::half() { return declare(Spv::type_int, {16, 0}); }
Id Module::buffer_half(int buffer, Id index) {
  if (halves_.empty()) half_block_ = block_of(half(), 2);
  const auto [at, added] = halves_.try_emplace(buffer, 0);
  if (added) at->second = this->buffer(half_block_, buffer);
  return emit(Spv::access_chain, pointer(k_storage_buffer, half()), {at->second, constant(Kind::u32, 0), index});
}
Id Module::push_word(int word) {
  const Id at = emit(Spv::access_chain, push_pointer_,
                     {push_, constant(Kind::u32, static_cast<std::uint32_t>(word))});
  return emit(Spv::load, type(Kind::u32), {at});
}
Id Module::variable(Kind kind) {
  const Id of = pointer(k_function_class, type(kind)), id = new_id();
  append(variables_, Spv::variable, {of, id, k_function_class});
  return id;
}
Id Module::shared(Kind kind, std::uint32_t size) {
  const Id array = declare(Spv::type_array, {type(kind), constant(Kind::u32, size)});
  return global(k_workgroup, pointer(k_workgroup, array));
}
Id Module::shared_word(Id array, Kind kind, Id index) {
  return emit(Spv::access_chain, pointer(k_workgroup, type(kind)), {array, index});
}
Id Module::quad() { return declare(Spv::type_vector, {type(Kind::f32), 4}); }
Id Module::shared_quads(std::uint32_t size) {
  const Id array = declare(Spv::type_array, {quad(), constant(Kind::u32, size)});
  return global(k_workgroup, pointer(k_workgroup, array));
}
Id Module::shared_quad(Id array, Id index) {
  return emit(Spv::access_chain, pointer(k_workgroup, quad()), {array, index});
}
Id Module::builtin(std::uint32_t number, int component) {
  const Id word = type(Kind::u32), vector = declare(Spv::type_vector, {word, 3});
  const auto [at, added] = builtins_.try_emplace(number, 0);
  if (added) {
    at->second = global(k_input, pointer(k_input, vector));
    append(decorations_, Spv::decorate, {at->second, k_builtin, number});
  }
  const Id loaded = emit(Spv::load, vector, {at->second});
  return emit(Spv::composite_extract, word, {loaded, static_cast<Id>(component)});
}
Id Module::pair(Kind kind) {
  if (pairs_.count(kind)) return pairs_[kind];
  const Id member = type(kind), id = new_id();
  // Not declare(): the block of push constants may have the same members, and a layout.
  append(declarations_, Spv::type_struct, {id, member, member});
  return pairs_[kind] = id;
}

Words Module::finish() {
  const Id nothing = declare(Spv::type_void, {}), function_type = declare(Spv::type_function, {nothing});
  Words out{k_spirv_magic, k_version_1_3, 0, 0, 0};
  append(out, Spv::capability, {k_shader});
  if (!halves_.empty()) append(out, Spv::capability, {k_storage_16_bit});
  if (options_.preserve_nan) {
    append(out, Spv::capability, {k_preserve_nan});
    std::vector<Id> name;
    append_text(name, "SPV_KHR_float_controls");
    append(out, Spv::extension, name);
  }
  std::vector<Id> import{glsl_};
  append_text(import, "GLSL.std.450");
  append(out, Spv::ext_inst_import, import);
  append(out, Spv::memory_model, {0, 1});  // logical, GLSL450
  std::vector<Id> entry{k_glcompute, main_};
  append_text(entry, "main");
  for (const auto& [number, id] : builtins_) entry.push_back(id);
  append(out, Spv::entry_point, entry);
  append(out, Spv::execution_mode, {main_, k_local_size_mode, options_.local_size, 1, 1});
  if (options_.preserve_nan) append(out, Spv::execution_mode, {main_, k_mode_nan, 32});
  out.insert(out.end(), decorations_.begin(), decorations_.end());
  out.insert(out.end(), declarations_.begin(), declarations_.end());
  append(out, Spv::function, {nothing, main_, 0, function_type});
  append(out, Spv::label, {new_id()});
  out.insert(out.end(), variables_.begin(), variables_.end());
  out.insert(out.end(), body_.begin(), body_.end());
  append(out, Spv::return_, {});
  append(out, Spv::function_end, {});
  out[3] = next_;
  return out;
}

}  // namespace unroll::vulkan

// SPDX-License-Identifier: Apache-2.0
#include "backends/common/hazards.h"

#include <algorithm>
#include <map>
#include <set>

#include "unroll/ir/ops.h"
#include "unroll/ir/strided_read.h"

namespace unroll::common {

namespace {

const Storage& storage_of(const Plan& plan, ValueId id) {
  return plan.storage[id.node][id.output];
}

struct Axis {
  std::int64_t size, stride;  // stride in bytes
};

// Returns the byte ranges of a strided value: adjacent elements become one range, the remaining axes are iterated.
std::vector<ByteRange> ranges_of(std::size_t begin, const Shape& shape, const Ints& strides, std::size_t element) {
  if (shape.elements() == 0) return {};
  std::vector<Axis> axes;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && strides[axis] != 0)
      axes.push_back({shape[axis], strides[axis] * static_cast<std::int64_t>(element)});
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  auto run = static_cast<std::int64_t>(element);
  std::size_t first = 0;
  for (; first < axes.size() && axes[first].stride <= run; ++first) run += axes[first].stride * (axes[first].size - 1);
  std::vector<ByteRange> ranges{{begin, begin + static_cast<std::size_t>(run)}};
  for (std::size_t k = first; k < axes.size(); ++k) {
    const std::size_t n = ranges.size();
    for (std::int64_t i = 1; i < axes[k].size; ++i)
      for (std::size_t r = 0; r < n; ++r) {
        const std::size_t shift = axes[k].stride * i;
        ranges.push_back({ranges[r].begin + shift, ranges[r].end + shift});
      }
  }
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::vector<ByteRange> joined;
  for (const ByteRange& range : ranges) {
    if (!joined.empty() && range.begin <= joined.back().end) joined.back().end = std::max(joined.back().end, range.end);
    else joined.push_back(range);
  }
  return joined;
}

// Offset and strides at which an operand must lie so that the result is a view of it.
struct Reading {
  std::size_t offset;  // bytes
  Ints strides;
};

bool same_place(const Shape& shape, const Reading& a, const Reading& b) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && a.strides[axis] != b.strides[axis])
      return false;
  return a.offset == b.offset;
}

// Finds the tasks of a plan.
class TaskFinder {
 public:
  explicit TaskFinder(const Plan& plan) : plan_(plan), graph_(*plan.graph) {}

  std::vector<Task> run() {
    std::vector<Task> tasks;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph_.nodes().size()); ++id) tasks.push_back(task_of(id));
    tasks.push_back(output_copies());
    return tasks;
  }

 private:
  Reading lies(ValueId id) const { return {storage_of(plan_, id).offset, strides_of(plan_, id)}; }
  bool in_one_space(ValueId a, ValueId b) const {
    return space_of(plan_, storage_of(plan_, a)) == space_of(plan_, storage_of(plan_, b));
  }
  static void add(std::vector<Region>& list, Region region) {
    if (!region.ranges.empty()) list.push_back(std::move(region));
  }

  Task task_of(std::int32_t id) const {
    const Node& node = graph_.node(id);
    Task task;
    if (node.op == Op::input || node.op == Op::constant) return task;
    if (node.op == Op::concat) return concat_task(id);
    if (is_view(id)) return task;
    for (const ValueId& input : node.inputs) add(task.reads, region_of(plan_, input));
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      if (storage_of(plan_, {id, k}).place != Storage::Place::none) add(task.writes, region_of(plan_, {id, k}));
    if (plan_.scratch_bytes[id] > 0)
      add(task.writes, {{Storage::Place::arena, 0},
                        {{plan_.scratch_offset[id], plan_.scratch_offset[id] + plan_.scratch_bytes[id]}}});
    return task;
  }

  bool is_view(std::int32_t id) const {
    const Node& node = graph_.node(id);
    if (op_info(node.op).kind != OpKind::move || storage_of(plan_, {id, 0}).place == Storage::Place::none) return false;
    if (node.op != Op::pad && node.outputs[0].shape.elements() == 0) return true;
    if (!in_one_space(node.inputs[0], {id, 0})) return false;
    const Shape &x = graph_.type(node.inputs[0]).shape, &y = node.outputs[0].shape;
    Reading from = lies(node.inputs[0]);
    if (storage_of(plan_, {id, 0}).viewed.rank() > 0)
      return storage_of(plan_, {id, 0}).viewed == x && same_place(x, from, lies({id, 0}));
    auto read = strided_read(node, x, from.strides);
    if (!read) return false;
    from.offset += read->start * dtype_bytes(node.outputs[0].dtype);
    from.strides = std::move(read->strides);
    return same_place(y, from, lies({id, 0}));
  }

  Task concat_task(std::int32_t id) const {
    const Node& node = graph_.node(id);
    const ValueId out{id, 0};
    const std::size_t axis = node.attributes.get<std::int64_t>("axis");
    Task task;
    Reading part = lies(out);
    for (const ValueId& input : node.inputs) {
      const Type& type = graph_.type(input);
      if (!in_one_space(input, out) || !same_place(type.shape, lies(input), part)) {
        add(task.reads, region_of(plan_, input));
        add(task.writes, {space_of(plan_, storage_of(plan_, out)),
                          ranges_of(part.offset, type.shape, part.strides, dtype_bytes(type.dtype))});
      }
      const std::int64_t length = type.shape[static_cast<int>(axis)] * part.strides[axis];
      part.offset += length * dtype_bytes(type.dtype);
    }
    return task;
  }

  Task output_copies() const {
    Task task;
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      const ValueId id = graph_.outputs()[k].value;
      const Type& type = graph_.type(id);
      const Storage& from = plan_.outputs[k];
      const Storage to{Storage::Place::output, static_cast<std::int32_t>(k), 0, {}};
      const Ints dense = row_major_strides(type.shape), strides = from.strides.empty() ? dense : from.strides;
      const Space source = space_of(plan_, from), target = space_of(plan_, to);
      if (source == target && same_place(type.shape, {from.offset, strides}, {0, dense})) continue;
      add(task.reads, {source, ranges_of(from.offset, type.shape, strides, dtype_bytes(type.dtype))});
      add(task.writes, {target, ranges_of(0, type.shape, dense, dtype_bytes(type.dtype))});
    }
    return task;
  }

  const Plan& plan_;
  const Graph& graph_;
};

// Tracks the last writer of each byte and its readers since then. Yields the edges from earlier tasks to each task.
class Accesses {
 public:
  void read(const Region& region, int task, std::set<int>& before) {
    for_pieces(region, [&](Piece& piece) {
      if (piece.writer >= 0) before.insert(piece.writer);
      piece.readers.insert(task);
    });
  }
  void write(const Region& region, int task, std::set<int>& before) {
    for_pieces(region, [&](Piece& piece) {
      if (piece.writer >= 0) before.insert(piece.writer);
      before.insert(piece.readers.begin(), piece.readers.end());
      piece.writer = task;
      piece.readers.clear();
    });
  }

 private:
  struct Piece {
    std::size_t end;
    int writer = -1;
    std::set<int> readers = {};
  };
  using Pieces = std::map<std::size_t, Piece>;  // by begin; pieces do not overlap

  // Splits the piece that covers `at`, so that one begins there.
  static void cut(Pieces& pieces, std::size_t at) {
    auto next = pieces.upper_bound(at);
    if (next == pieces.begin()) return;
    auto piece = std::prev(next);
    if (piece->first == at || piece->second.end <= at) return;
    pieces.emplace_hint(next, at, piece->second);
    piece->second.end = at;
  }
  template <class F>
  void for_pieces(const Region& region, F f) {
    Pieces& pieces = spaces_[region.space];
    for (const ByteRange& range : region.ranges) {
      cut(pieces, range.begin);
      cut(pieces, range.end);
      std::size_t at = range.begin;
      while (at < range.end) {
        auto piece = pieces.lower_bound(at);
        if (piece == pieces.end() || piece->first != at) {  // not accessed so far
          const std::size_t end = piece == pieces.end() ? range.end : std::min(range.end, piece->first);
          piece = pieces.emplace_hint(piece, at, Piece{end});
        }
        f(piece->second);
        at = piece->second.end;
      }
    }
  }

  std::map<Space, Pieces> spaces_;
};

// Returns the tasks that must precede each task, without edges that follow from others.
std::vector<std::pair<int, int>> edges_of(const std::vector<Task>& tasks) {
  const std::size_t n = tasks.size();
  Accesses accesses;
  std::vector<std::vector<bool>> reaches(n);  // [task][earlier task]
  std::vector<std::pair<int, int>> edges;
  for (std::size_t i = 0; i < n; ++i) {
    const int task = static_cast<int>(i);
    std::set<int> before;
    for (const Region& region : tasks[i].reads) accesses.read(region, task, before);
    for (const Region& region : tasks[i].writes) accesses.write(region, task, before);
    before.erase(task);
    reaches[i].assign(i, false);
    // The latest first: tasks that precede it need no edge of their own.
    for (auto at = before.rbegin(); at != before.rend(); ++at) {
      const std::size_t earlier = *at;
      if (reaches[i][earlier]) continue;
      edges.emplace_back(*at, task);
      reaches[i][earlier] = true;
      for (std::size_t k = 0; k < earlier; ++k)
        if (reaches[earlier][k]) reaches[i][k] = true;
    }
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

}  // namespace

Space space_of(const Plan& plan, const Storage& storage) {
  if (storage.place == Storage::Place::output)
    if (const int donor = plan.donors[storage.index]; donor >= 0)
      return {Storage::Place::input, donor};
  return {storage.place, storage.place == Storage::Place::arena ? 0 : storage.index};
}

Ints strides_of(const Plan& plan, ValueId id) {
  const Ints& strides = storage_of(plan, id).strides;
  return strides.empty() ? row_major_strides(plan.graph->type(id).shape) : strides;
}

Region region_of(const Plan& plan, ValueId id) {
  const Storage& storage = storage_of(plan, id);
  const Type& type = plan.graph->type(id);
  return {space_of(plan, storage),
          ranges_of(storage.offset, storage.viewed.rank() > 0 ? storage.viewed : type.shape, strides_of(plan, id),
                    dtype_bytes(type.dtype))};
}

bool touch(const std::vector<Region>& a, const std::vector<Region>& b) {
  for (const Region& x : a)
    for (const Region& y : b) {
      if (x.space != y.space) continue;
      for (const auto& r : x.ranges)
        for (const auto& s : y.ranges)
          if (r.begin < s.end && s.begin < r.end) return true;
    }
  return false;
}

Hazards hazards_of(const Plan& plan) {
  Hazards hazards;
  hazards.tasks = TaskFinder(plan).run();
  hazards.edges = edges_of(hazards.tasks);
  hazards.bodies.resize(plan.graph->nodes().size());
  for (std::size_t i = 0; i < plan.bodies.size(); ++i)
    if (plan.bodies[i]) hazards.bodies[i] = std::make_shared<Hazards>(hazards_of(*plan.bodies[i]));
  return hazards;
}

}  // namespace unroll::common

// SPDX-License-Identifier: Apache-2.0
// The entry points of libnccl.so.2, for tests without devices: ranks are threads. Messages move when the streams of
// both ranks have come to them, as on devices that keep nothing for later. Calls that NCCL forbids, or that would hang,
// are errors here, with a line on stderr. Only what the backend calls is there.
//
// Environment: UNROLL_SHIM_NCCL, the version.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver/nccl.h"
#include "tests/backends/cuda/shim/late_work.h"

using unroll::cuda::nccl::Config;
using unroll::cuda::nccl::Result;
using unroll::cuda::nccl::Type;
using unroll::cuda::nccl::UniqueId;

namespace {

struct Message {
  const void* from = nullptr;
  std::size_t bytes = 0;
  Type type = Type::float32;
  bool taken = false;
};

// All ranks of one id.
struct World {
  explicit World(int n) : joined(static_cast<std::size_t>(n), false) {}
  std::vector<bool> joined;
  std::set<int> aborted;
  int n_joined = 0, n_finalized = 0;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> posted;  // by sender and receiver
  Result wrong = Result::success;
  int size() const { return static_cast<int>(joined.size()); }
};

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::map<std::string, std::shared_ptr<World>>& worlds() {
  static auto* const all = new std::map<std::string, std::shared_ptr<World>>;
  return *all;
}
int n_communicators = 0;

Result complain(Result result, const std::string& what) {
  std::fprintf(stderr, "nccl shim: %s\n", what.c_str());
  return result;
}

std::size_t width(Type type) { return type == Type::float64 ? 8 : 4; }

}  // namespace

namespace unroll::cuda::nccl {
struct Communicator {
  std::shared_ptr<World> world;
  int rank = 0;
  bool finalized = false;
};
}  // namespace unroll::cuda::nccl
using unroll::cuda::nccl::Communicator;

namespace {

struct Transfer {
  bool sends;
  int peer;
  void* at;
  std::size_t bytes;
  Type type;
  std::shared_ptr<Message> posted;  // of a send
  bool done = false;                // of a receive
};

// On a stream: everything in it moves at once.
struct Group {
  Communicator* communicator;
  CUstream stream;
  std::shared_ptr<World> world;
  int rank;
  std::vector<Transfer> transfers;
  bool begun = false;

  CUresult run() {
    const std::lock_guard lock(mutex());
    if (world->aborted.contains(rank)) return CUDA_SUCCESS;  // nothing moves any more
    if (world->wrong != Result::success) return CUDA_ERROR_NOT_READY;  // until it is aborted
    if (!begun)
      for (Transfer& t : transfers)
        if (t.sends) {
          t.posted = std::make_shared<Message>(Message{t.at, t.bytes, t.type});
          world->posted[{rank, t.peer}].push_back(t.posted);
        }
    begun = true;
    bool all = true;
    for (Transfer& t : transfers) {
      if (t.sends) {
        all = all && t.posted->taken;
        continue;
      }
      if (t.done) continue;
      auto& queue = world->posted[{t.peer, rank}];
      if (queue.empty()) {
        all = false;
        continue;
      }
      Message& message = *queue.front();
      if (message.bytes != t.bytes || message.type != t.type) {
        world->wrong = complain(Result::internal_error, "rank " + std::to_string(t.peer) + " sends " +
                                                            std::to_string(message.bytes) + " bytes, and rank " +
                                                            std::to_string(rank) + " expects " +
                                                            std::to_string(t.bytes));
        return CUDA_ERROR_NOT_READY;
      }
      std::memcpy(t.at, message.from, t.bytes);
      message.taken = t.done = true;
      queue.pop_front();
    }
    return all ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
};

thread_local int depth = 0;
thread_local std::vector<Transfer> grouped;
thread_local Communicator* group_communicator = nullptr;
thread_local CUstream group_stream = nullptr;

bool is_ready(const Communicator* c) { return c && !c->finalized && c->world->n_joined == c->world->size(); }

Result refusal(std::size_t n, Type type, int peer, const Communicator* c, CUstream stream) {
  const std::lock_guard lock(mutex());
  if (depth == 0) return complain(Result::invalid_usage, "a message outside of a group");
  if (!is_ready(c)) return complain(Result::invalid_usage, "a message before the communicator is ready");
  if (peer < 0 || peer >= c->world->size() || peer == c->rank || n == 0)
    return complain(Result::invalid_argument, "a message of " + std::to_string(n) + " to " + std::to_string(peer));
  if (type != Type::float32 && type != Type::float64) return complain(Result::invalid_argument, "a type");
  if (group_communicator && (group_communicator != c || group_stream != stream))
    return complain(Result::invalid_usage, "a group of two communicators or streams");
  return Result::success;
}

// Not under the mutex: the driver holds its own while it does the work of a group, which takes this one.
Result add(bool sends, void* at, std::size_t n, Type type, int peer, Communicator* c, CUstream stream) {
  if (const Result r = refusal(n, type, peer, c, stream); r != Result::success) return r;
  group_communicator = c;
  group_stream = stream;
  const std::size_t bytes = n * width(type);
  if (unroll_shim_put(stream, {}, at, bytes) != CUDA_SUCCESS) return Result::invalid_argument;
  grouped.push_back({sends, peer, at, bytes, type, nullptr, false});
  return Result::success;
}

}  // namespace

extern "C" {

// Of the tests: communicators that were made and not destroyed.
int unroll_shim_nccl_communicators() {
  const std::lock_guard lock(mutex());
  return n_communicators;
}
// The next look of any rank finds this error.
void unroll_shim_nccl_break(int result) {
  const std::lock_guard lock(mutex());
  for (auto& [id, world] : worlds()) world->wrong = static_cast<Result>(result);
}

const char* ncclGetErrorString(Result result) {
  return result == Result::remote_error ? "remote process exited or there was a network error" : "an error of the shim";
}
const char* ncclGetLastError(Communicator*) { return ""; }
Result ncclGetVersion(int* version) {
  const char* const text = std::getenv("UNROLL_SHIM_NCCL");
  *version = text ? std::atoi(text) : 22800;
  return Result::success;
}
Result ncclGetUniqueId(UniqueId* id) {
  static int number = 0;
  const std::lock_guard lock(mutex());
  std::snprintf(id->bytes, sizeof id->bytes, "id %d", ++number);
  return Result::success;
}
Result ncclCommInitRankConfig(Communicator** made, int n, UniqueId id, int rank, Config* config) {
  const std::lock_guard lock(mutex());
  if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->version < 21400)
    return complain(Result::invalid_argument, "a configuration that is not initialized");
  if (config->blocking != 0) return complain(Result::invalid_usage, "a call that blocks");
  if (std::strncmp(id.bytes, "id ", 3) != 0) return complain(Result::invalid_argument, "an id that NCCL did not make");
  auto& world = worlds()[id.bytes];
  if (!world) world = std::make_shared<World>(n);
  if (world->size() != n || rank < 0 || rank >= n || world->joined[static_cast<std::size_t>(rank)])
    return complain(Result::invalid_usage, "rank " + std::to_string(rank) + " joins twice, or another number of ranks");
  world->joined[static_cast<std::size_t>(rank)] = true;
  ++world->n_joined;
  ++n_communicators;
  *made = new Communicator{world, rank};
  return Result::in_progress;
}
Result ncclCommGetAsyncError(Communicator* c, Result* now) {
  const std::lock_guard lock(mutex());
  const World& world = *c->world;
  const bool waits = world.n_joined < world.size() || (c->finalized && world.n_finalized < world.size());
  *now = world.wrong != Result::success ? world.wrong : waits ? Result::in_progress : Result::success;
  return Result::success;
}
Result ncclCommFinalize(Communicator* c) {
  const std::lock_guard lock(mutex());
  if (!is_ready(c)) return complain(Result::invalid_usage, "finalized before it was ready, or twice");
  for (const auto& [ranks, queue] : c->world->posted)
    if (!queue.empty() && (ranks.first == c->rank || ranks.second == c->rank))
      return complain(Result::invalid_usage, "finalized while messages are under way");
  c->finalized = true;
  ++c->world->n_finalized;
  return Result::in_progress;
}
Result ncclCommDestroy(Communicator* c) {
  const std::lock_guard lock(mutex());
  if (!c->finalized) return complain(Result::invalid_usage, "destroyed before it was finalized");
  --n_communicators;
  delete c;
  return Result::success;
}
Result ncclCommAbort(Communicator* c) {
  const std::lock_guard lock(mutex());
  c->world->aborted.insert(c->rank);
  --n_communicators;
  delete c;
  return Result::success;
}
Result ncclGroupStart() {
  ++depth;
  return Result::success;
}
Result ncclSend(const void* at, std::size_t n, Type type, int peer, Communicator* c, CUstream stream) {
  return add(true, const_cast<void*>(at), n, type, peer, c, stream);
}
Result ncclRecv(void* at, std::size_t n, Type type, int peer, Communicator* c, CUstream stream) {
  return add(false, at, n, type, peer, c, stream);
}
Result ncclGroupEnd() {
  if (depth == 0) return complain(Result::invalid_usage, "the end of a group that has not begun");
  if (--depth > 0 || grouped.empty()) return Result::success;
  auto group = std::make_shared<Group>();
  group->communicator = std::exchange(group_communicator, nullptr);
  group->stream = group_stream;
  group->world = group->communicator->world;
  group->rank = group->communicator->rank;
  group->transfers = std::exchange(grouped, {});
  const void* const at = group->transfers[0].at;
  const std::size_t bytes = group->transfers[0].bytes;
  if (unroll_shim_put(group->stream, [group] { return group->run(); }, at, bytes) != CUDA_SUCCESS)
    return Result::unhandled_cuda_error;
  return Result::in_progress;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/device_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/parallel/collectives.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using Clock = std::chrono::steady_clock;
using nccl::Result;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr auto k_nap = std::chrono::microseconds(50);

}  // namespace

// A rank without NCCL ends the others before they wait for it.
DeviceRanks::DeviceRanks(Communicator& ranks) : ranks_(ranks), f_(open_nccl()) {
  nccl::UniqueId id{};
  if (ranks_.rank() == 0) require(f_.GetUniqueId(&id), "ncclGetUniqueId");
  const ByteList bytes = broadcast(ranks_, std::as_bytes(std::span(&id, 1)));
  std::memcpy(&id, bytes.data(), sizeof id);
  nccl::Config config;
  try {
    require(f_.CommInitRankConfig(&nccl_, ranks_.size(), id, ranks_.rank(), &config), "ncclCommInitRankConfig");
    await("ncclCommInitRankConfig");
  } catch (...) {
    give_up();
    throw;
  }
}

DeviceRanks::~DeviceRanks() {
  if (!nccl_) return;
  try {
    require(f_.CommFinalize(nccl_), "ncclCommFinalize");
    await("ncclCommFinalize");
    f_.CommDestroy(std::exchange(nccl_, nullptr));
  } catch (const Error&) {  // its work is done
    give_up();
  }
}

void DeviceRanks::exchange(std::span<const Message> messages, CUstream stream) {
  if (!nccl_) throw Error(ErrorKind::peer, "cuda", "messages between devices have ended after an error");
  require(f_.GroupStart(), "ncclGroupStart");
  for (const Message& m : messages) {
    const nccl::Type type = m.dtype == DType::f64 ? nccl::Type::float64 : nccl::Type::float32;
    void* const at = reinterpret_cast<void*>(m.at);
    if (m.sends) require(f_.Send(at, m.elements, type, m.peer, nccl_, stream), "ncclSend");
    else require(f_.Recv(at, m.elements, type, m.peer, nccl_, stream), "ncclRecv");
  }
  require(f_.GroupEnd(), "ncclGroupEnd");
  await("ncclGroupEnd");
}

void DeviceRanks::check(double seconds) {
  if (!nccl_ && seconds < ranks_.time_limit()) return;  // what was under way ends
  if (!nccl_) throw Error(ErrorKind::peer, "cuda", "the device does not end messages that were given up");
  try {
    Result now = Result::success;
    const Result asked = f_.CommGetAsyncError(nccl_, &now);
    if (asked != Result::success) fail(asked, "ncclCommGetAsyncError");
    if (now != Result::success && now != Result::in_progress) fail(now, "an exchange between devices");
    ranks_.look_for_failures();
    if (seconds > ranks_.time_limit()) ranks_.name_lost();
  } catch (...) {
    give_up();
    throw;
  }
}

void DeviceRanks::require(Result result, const char* what) {
  if (result != Result::success && result != Result::in_progress) fail(result, what);
}

// Calls return at once; until they are done, none but this may follow.
void DeviceRanks::await(const char* what) {
  const auto begin = Clock::now();
  for (Result now = Result::in_progress; now == Result::in_progress;) {
    const Result asked = f_.CommGetAsyncError(nccl_, &now);
    if (asked != Result::success) fail(asked, "ncclCommGetAsyncError");
    if (now != Result::in_progress) require(now, what);
    else check(seconds_since(begin));
    if (now == Result::in_progress) std::this_thread::sleep_for(k_nap);
  }
}

// Another rank may have said why; of a lost one NCCL knows less than the ranks.
void DeviceRanks::fail(Result result, const char* what) {
  const char *const text = f_.GetErrorString(result), *const more = nccl_ ? f_.GetLastError(nccl_) : nullptr;
  const std::string all = std::string(what) + " failed: " + (text ? text : "error " + std::to_string(int(result))) +
                          (more && *more ? ", " + std::string(more) : "");
  give_up();
  if (result == Result::remote_error || result == Result::system_error) {
    ranks_.look_for_failures();
    throw Error(ErrorKind::peer, "cuda", "the device of another rank, or the way to it, is lost: " + all,
                "Look at the messages of the other ranks, then continue with --resume");
  }
  throw Error(ErrorKind::device, "cuda", all, "Run again with NCCL_DEBUG=INFO, which says more");
}

void DeviceRanks::give_up() noexcept {
  if (nccl_) f_.CommAbort(std::exchange(nccl_, nullptr));
}

int rank_on_machine(Communicator& ranks) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const std::string own = name;
  const std::vector<ByteList> names = all_gather(ranks, std::as_bytes(std::span(own)));
  const auto is_here = [&](const ByteList& other) {
    return own == std::string(reinterpret_cast<const char*>(other.data()), other.size());
  };
  return static_cast<int>(std::count_if(names.begin(), names.begin() + ranks.rank(), is_here));
}

}  // namespace unroll::cuda

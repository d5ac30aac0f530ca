// SPDX-License-Identifier: Apache-2.0
// Messages between processes by MPI. All messages are nonblocking and polled. A blocking call would wait forever for a
// dead rank, and only polling can identify that rank.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "core/parallel/collectives.h"
#include "core/parallel/lost_rank.h"
#include "core/parallel/mpi_library.h"
#include "core/parallel/watched_call.h"
#include "core/support/elapsed.h"
#include "unroll/support/result.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int k_data = 1, k_failure = 2, k_roll_call = 3;  // tags
constexpr std::size_t k_largest = 1 << 30;         // bytes per message: MPI counts are int
// Seconds of polling without a pause. On a busy machine a yield would give up the core for milliseconds.
constexpr double k_spin = 5e-4;
constexpr int k_probe_every = 64;                  // polls between two checks for failures
constexpr auto k_nap = std::chrono::microseconds(50);
// Seconds to wait after this process was asked to stop; Open MPI kills it a second later.
constexpr double k_grace = 0.3;
constexpr double k_tell_seconds = 1;               // time for a failing rank to notify the others
constexpr double k_after_roll_call = 0.1;          // seconds in which the others receive this rank's answer
constexpr int k_serialized = 2;                    // MPI_THREAD_SERIALIZED in both libraries
constexpr std::size_t k_longest_text = 512;        // of a failure message

template <class Abi>
class MpiRank final : public Communicator {
 public:
  MpiRank(const mpi::Library& library, MpiOptions options)
      : mpi_(library.functions<Abi>()), options_(std::move(options)) {
    int provided = 0;
    require(in_time(stuck_start(), /*may_end=*/true,
                    [&] { return mpi_.init_thread(nullptr, nullptr, k_serialized, &provided); }),
            "MPI_Init_thread");
    if (provided < k_serialized)
      throw Error(ErrorKind::device, "MPI", "was built without support for threads (MPI_THREAD_SERIALIZED)");
    require(mpi_.comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
    require(mpi_.comm_rank(mpi_.world, &rank_), "MPI_Comm_rank");
    require(mpi_.comm_size(mpi_.world, &size_), "MPI_Comm_size");
  }
  // A failed rank must not wait for the others, because MPI_Finalize would wait for a dead one.
  ~MpiRank() override {
    try {
      if (!failed_) any(*this, false);  // every rank has reached this point
      if (!failed_) in_time(stuck_end(), /*may_end=*/false, [&] { return mpi_.finalize(); });
    } catch (const std::exception&) {  // its work is done
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Ends an exchange that runs in another thread, because only one thread may call MPI at a time.
  void fail(const char* text) noexcept override {
    ends_ = true;
    const std::lock_guard lock(mutex_);
    if (std::exchange(failed_, true)) return;  // the others detect the same failure
    char message[k_longest_text] = {};
    std::strncpy(message, text, k_longest_text - 1);
    std::vector<Pending> pending;
    const auto begin = Clock::now();
    try {
      for (int r = 0; r < size_; ++r)
        if (r != rank_)
          start(pending, r, [&](Handle* request) {
            return mpi_.isend(message, k_longest_text, mpi_.byte, r, k_failure, mpi_.world, request);
          });
      while (poll(pending) > 0 && seconds_since(begin) < k_tell_seconds) std::this_thread::sleep_for(k_nap);
    } catch (const std::exception&) {  // this rank ends anyway
    }
  }

  void look_for_failures() override {
    const std::lock_guard lock(mutex_);
    find_failures();
    if (asks_to_end(asked_)) give_up_at(/*ends=*/true);
    if (is_there(k_roll_call)) give_up_at(/*ends=*/false);
  }
  [[noreturn]] void name_lost() override {
    const std::lock_guard lock(mutex_);
    give_up_at(/*ends=*/false);
  }
  double time_limit() const override { return options_.seconds; }

 protected:
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    const std::lock_guard lock(mutex_);
    std::vector<Pending> pending;
    for (const Incoming& message : in)
      in_parts(message.bytes, [&](std::span<std::byte> part) {
        start(pending, message.from, [&](Handle* request) {
          return mpi_.irecv(part.data(), static_cast<int>(part.size()), mpi_.byte, message.from, k_data, mpi_.world,
                            request);
        });
      });
    for (const Outgoing& message : out)
      in_parts(message.bytes, [&](std::span<const std::byte> part) {
        start(pending, message.to, [&](Handle* request) {
          return mpi_.isend(part.data(), static_cast<int>(part.size()), mpi_.byte, message.to, k_data, mpi_.world,
                            request);
        });
      });
    finish(pending);
  }

 private:
  using Handle = typename Abi::Handle;
  struct Pending {
    int peer;
    Handle request;
    bool done = false;
  };

  // Runs a call that waits for other processes and cannot be canceled if one of them is dead.
  template <class F>
  int in_time(const Error& stuck, bool may_end, const F& call) {
    if (!options_.stuck) return call();
    std::optional<Clock::time_point> asked;
    const auto is_stuck = [&](double seconds) {
      return (may_end && asks_to_end(asked)) || seconds > options_.seconds;
    };
    return watched(call, is_stuck, [&] { options_.stuck(stuck); });
  }
  static void require(int code, const char* what) {
    if (code != 0)
      throw Error(ErrorKind::peer, what, std::string("failed with code ") + std::to_string(code) + " of " + Abi::name);
  }
  template <class Span, class F>
  static void in_parts(Span bytes, const F& use) {
    for (std::size_t at = 0; at < bytes.size(); at += k_largest)
      use(bytes.subspan(at, std::min(k_largest, bytes.size() - at)));
  }
  template <class F>
  void start(std::vector<Pending>& pending, int peer, const F& begin) {
    Pending p{peer, Handle{}};
    if (begin(&p.request) != 0) throw lost(peer);
    pending.push_back(p);
  }

  // Returns the number of open messages. Calls on_loss(peer) for a message that cannot arrive.
  template <class F>
  std::size_t poll(std::vector<Pending>& pending, const F& on_loss) {
    std::size_t open = 0;
    for (Pending& p : pending) {
      if (p.done) continue;
      int flag = 0;
      mpi::Status status{};
      const bool is_lost = mpi_.test(&p.request, &flag, &status) != 0;
      if (is_lost) on_loss(p.peer);
      p.done = flag != 0 || is_lost;
      open += p.done ? 0 : 1;
    }
    return open;
  }
  std::size_t poll(std::vector<Pending>& pending) {
    return poll(pending, [&](int peer) { throw lost(peer); });
  }

  // True if this process was asked to end and has had the time of grace.
  bool asks_to_end(std::optional<Clock::time_point>& asked) const {
    if (!asked && options_.stops && options_.stops()) asked = Clock::now();
    return asked && seconds_since(*asked) > k_grace;
  }

  void finish(std::vector<Pending>& pending) {
    const auto begin = Clock::now();
    std::optional<Clock::time_point> asked;
    for (int n = 0; poll(pending) > 0; ++n) {
      if (ends_) throw Error(ErrorKind::peer, "ranks", "this rank ends with an error");
      if (n % k_probe_every == 0) find_failures();
      const bool ends = asks_to_end(asked), called = n % k_probe_every == 0 && is_there(k_roll_call);
      if (ends || called || seconds_since(begin) > options_.seconds) give_up(pending, asked.has_value());
      if (seconds_since(begin) > k_spin) std::this_thread::sleep_for(k_nap);
    }
  }

  // Called at about the same time by all ranks that wait for a lost rank. Ranks that answer the roll call are not lost.
  [[noreturn]] void give_up(std::vector<Pending>& pending, bool ends) {
    failed_ = true;
    std::set<int> silent, waited_for, lost;
    for (int r = 0; r < size_; ++r)
      if (r != rank_) silent.insert(r);
    for (const Pending& p : pending)
      if (!p.done) waited_for.insert(p.peer);
    try {
      call_roll(pending, silent, lost, ends ? k_grace : k_tell_seconds);
    } catch (const std::exception&) {  // uses the answers received so far
    }
    std::erase_if(lost, [&](int r) { return !silent.contains(r); });  // the rank answered, and has ended since
    const std::vector<int> ranks =
        lost.empty() ? lost_ranks(silent, waited_for) : std::vector<int>(lost.begin(), lost.end());
    throw ends ? missing_ranks(ranks) : silent_ranks(ranks, options_.seconds);
  }

  [[noreturn]] void give_up_at(bool ends) {
    std::vector<Pending> pending;
    give_up(pending, ends);
  }

  // Removes the ranks that answer in time from `silent`. Adds ranks to `lost` if MPI itself reports an undeliverable
  // message.
  void call_roll(std::vector<Pending>& pending, std::set<int>& silent, std::set<int>& lost, double seconds) {
    const auto begin = Clock::now();
    const auto note_loss = [&](int r) { lost.insert(r); };
    static constexpr std::byte present{1};  // static, to outlive messages to the lost rank
    for (int r = 0; r < size_; ++r) {
      Pending p{r, Handle{}};
      if (r == rank_) continue;
      if (mpi_.isend(&present, 1, mpi_.byte, r, k_roll_call, mpi_.world, &p.request) != 0) note_loss(r);
      else pending.push_back(p);
    }
    for (int answers = 0; answers + 2 < size_ && seconds_since(begin) < seconds;) {
      poll(pending, note_loss);
      if (const std::optional<int> from = source_of(k_roll_call)) {
        std::byte answer{};
        mpi::Status status{};
        require(mpi_.recv(&answer, 1, mpi_.byte, *from, k_roll_call, mpi_.world, &status), "MPI_Recv");
        silent.erase(*from);
        ++answers;
      }
      std::this_thread::sleep_for(k_nap);
    }
    const auto told = Clock::now();
    while (poll(pending, note_loss) > 0 && seconds_since(told) < k_after_roll_call) std::this_thread::sleep_for(k_nap);
  }

  // The sender of a message with this tag that has arrived.
  std::optional<int> source_of(int tag) {
    int flag = 0;
    mpi::Status status{};
    if (mpi_.iprobe(Abi::any_source, tag, mpi_.world, &flag, &status) != 0 || flag == 0) return {};
    return status.fields[Abi::source_field];
  }
  bool is_there(int tag) { return source_of(tag).has_value(); }

  void find_failures() {
    const std::optional<int> from = source_of(k_failure);
    if (!from) return;
    mpi::Status status{};
    char text[k_longest_text] = {};
    require(mpi_.recv(text, k_longest_text, mpi_.byte, *from, k_failure, mpi_.world, &status), "MPI_Recv");
    text[k_longest_text - 1] = '\0';
    failed_ = true;
    throw failed_rank(*from, text);
  }

  Error lost(int peer) {
    failed_ = true;
    return {ErrorKind::peer, "ranks", "lost the connection to rank " + std::to_string(peer)};
  }

  mpi::Functions<Abi> mpi_;
  MpiOptions options_;
  int rank_ = 0, size_ = 1;
  std::mutex mutex_;  // guards all MPI calls and the members below
  bool failed_ = false;
  std::optional<Clock::time_point> asked_;  // time of the stop request, outside exchanges
  std::atomic<bool> ends_ = false;
};

// Each launcher sets specific environment variables in its processes.
struct Launcher {
  const char *name, *size, *rank;  // environment variables
  const char* package;             // Debian package with the library
  std::vector<const char*> libraries;
};
const Launcher k_launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "libopenmpi3", {"libmpi.so.40"}},
    {"MPICH", "PMI_SIZE", "PMI_RANK", "libmpich12", {"libmpich.so.12", "libmpi.so.12"}},
};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Returns the launcher whose variables this process has, or nullptr.
const Launcher* launcher() {
  const auto at = std::find_if(std::begin(k_launchers), std::end(k_launchers), [](const Launcher& l) {
    return !variable(l.size).empty() || !variable(l.rank).empty();
  });
  return at == std::end(k_launchers) ? nullptr : at;
}

mpi::Library launched_library() {
  const Launcher* found = launcher();
  const Launcher& l = found ? *found : k_launchers[1];
  const char* own = std::getenv("UNROLL_MPI_LIBRARY");
  const std::vector<const char*> names = own ? std::vector<const char*>{own} : l.libraries;
  std::string failures;
  for (const char* name : names) {
    try {
      return mpi::Library(name);
    } catch (const Error& e) {
      failures += (failures.empty() ? "" : "; ") + std::string(message_of(e));
    }
  }
  throw Error(ErrorKind::device, "MPI",
              std::string(l.size) + "=" + std::string(variable(l.size)) + " says that " + l.name +
                  " launched several processes, and its library cannot be loaded: " + failures,
              std::string("Install ") + l.package +
                  " (Debian's name), or set UNROLL_MPI_LIBRARY to its file. To train as one process, write: env -u " +
                  l.size + " -u " + l.rank + " unroll ...");
}

// Throws if this process is alone, because the library belongs to another MPI than the launcher.
void require_launched_size(const Communicator& ranks, const mpi::Library& library) {
  const Launcher* l = launcher();
  if (!l || ranks.size() > 1 || variable(l->size).empty() || variable(l->size) == "1") return;
  throw Error(ErrorKind::device, "MPI",
              std::string(l->size) + "=" + std::string(variable(l->size)) + ", but " + library.version() +
                  " sees this process alone",
              "Use the launcher of the same MPI, or set UNROLL_MPI_LIBRARY to the library of " + std::string(l->name));
}

}  // namespace

// Batch systems also set the variables for a single process.
bool was_launched_by_mpi() {
  const Launcher* l = launcher();
  return l && variable(l->size) != "1";
}

std::unique_ptr<Communicator> mpi_ranks(const MpiOptions& options) {
  const mpi::Library library = launched_library();
  std::unique_ptr<Communicator> ranks;
  if (library.is_open_mpi()) ranks = std::make_unique<MpiRank<mpi::OpenMpi>>(library, options);
  else ranks = std::make_unique<MpiRank<mpi::Mpich>>(library, options);
  require_launched_size(*ranks, library);
  return ranks;
}

std::vector<std::string> mpi_libraries() {
  std::vector<std::string> found;
  for (const Launcher& l : k_launchers)
    for (const char* name : l.libraries) {
      try {
        found.push_back(mpi::Library(name).version() + " (" + name + ")");
      } catch (const Error&) {  // not installed
      }
    }
  return found;
}

}  // namespace unroll

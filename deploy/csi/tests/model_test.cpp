// SPDX-License-Identifier: Apache-2.0
// Random calls against a model: after each, the answer, the list of volumes, the room and the bytes are those that the
// model expects. SLUICE_TEST_FULL=1 makes a hundred thousand calls; SLUICE_CSI_SEED repeats a run.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "core/bytes.h"
#include "core/controller_service.h"
#include "core/directory_backend.h"
#include "core/node_service.h"
#include "core/refusal.h"
#include "tests/pool.h"

namespace sluice::csi {
namespace {

constexpr int names_there_are = 5;
constexpr int pods_there_are = 3;

// The driver's parts as one process has them; a new one is a restart.
struct Process {
  explicit Process(const std::string& pool) {
    options.node = "node-a";
    volumes.add(std::make_unique<DirectoryBackend>(DirectoryOptions{pool, QuotaWish::none, {}}));
  }
  ServiceOptions options;
  Volumes volumes;
  OperationLocks locks;
  Trials trials{TrialOptions{"sluice", facts::Root("/no-such-machine")}};
  ControllerService controller{options, volumes, locks};
  NodeService node{options, volumes, locks, trials};
};

struct ModelVolume {
  std::string id;
  std::int64_t bytes = 0;
  std::string content;
  bool staged = false;
  std::map<int, bool> pods;  // by number: read-only
};

struct ModelSnapshot {
  std::string id;
  std::string source;
  std::int64_t bytes = 0;
  std::string content;
};

class ModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_pool();
    if (!why.empty()) GTEST_SKIP() << why;
    pool_ = std::make_unique<LoopPool>();
    process_ = std::make_unique<Process>(pool_->path());
    room_ = process_->controller.capacity({}, {}, {}).available;
    const char* const seed = std::getenv("SLUICE_CSI_SEED");
    seed_ = seed != nullptr ? std::strtoul(seed, nullptr, 10) : std::random_device()();
    random_.seed(seed_);
  }

  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  std::string staging(const ModelVolume& volume) const { return pool_->at("staging/" + volume.id); }
  std::string target(const ModelVolume& volume, int pod) const {
    return pool_->at("pods/" + std::to_string(pod) + "/" + volume.id);
  }
  static Capability capability() { return {AccessType::mount, "", {}, AccessMode::single_node_writer}; }

  // 0 for success, else the refusal's number.
  template <typename Call>
  int code_of(Call call) {
    try {
      call();
      return 0;
    } catch (const Refusal& refusal) {
      said_ = refusal.what();
      return static_cast<int>(refusal.code());
    }
  }
  static int number(Code code) { return static_cast<int>(code); }

  std::int64_t left() const {
    std::int64_t sum = 0;
    for (const auto& [name, volume] : volumes_) sum += volume.bytes;
    for (const auto& [name, snapshot] : snapshots_) sum += snapshot.bytes;
    return room_ - sum;
  }

  void create() {
    const std::string name = "v" + std::to_string(below(names_there_are));
    CreateVolumeCall call;
    call.name = name;
    call.range.required = (1 + below(60)) * mebibyte;
    call.capabilities = {capability()};
    std::string content;
    if (!snapshots_.empty() && below(3) == 0) {
      const ModelSnapshot& source = std::next(snapshots_.begin(), below(static_cast<int>(snapshots_.size())))->second;
      call.source = {ContentKind::snapshot, source.id};
      call.range.required = source.bytes;
      content = source.content;
    }
    std::string id;
    const int code = code_of([&] { id = process_->controller.create_volume(call).record.id; });
    const auto old = volumes_.find(name);
    if (old != volumes_.end()) {
      const bool same = old->second.bytes >= call.range.required && sources_[name] == call.source;
      ASSERT_EQ(code, same ? 0 : number(Code::already_exists)) << said_;
    } else if (call.range.required > left()) {
      ASSERT_EQ(code, number(Code::resource_exhausted)) << said_;
    } else {
      ASSERT_EQ(code, 0) << said_;
      volumes_[name] = {id, call.range.required, content, false, {}};
      sources_[name] = call.source;
    }
  }

  void remove(const std::string& name, const ModelVolume& volume) {
    const int code = code_of([&] { process_->controller.delete_volume(volume.id); });
    const bool used = volume.staged || !volume.pods.empty();
    ASSERT_EQ(code, used ? number(Code::failed_precondition) : 0) << said_;
    if (!used) volumes_.erase(name);
  }

  void stage(ModelVolume& volume) {
    ASSERT_EQ(code_of([&] { process_->node.stage({volume.id, staging(volume), capability(), {}, {}}); }), 0) << said_;
    volume.staged = true;
    if (below(2) != 0) return;
    volume.content = std::to_string(random_());
    write_file(staging(volume) + "/file", volume.content);
  }

  void unstage(ModelVolume& volume) {
    ASSERT_EQ(code_of([&] { process_->node.unstage(volume.id, staging(volume)); }), 0) << said_;
    volume.staged = false;
  }

  void publish(ModelVolume& volume) {
    const int pod = below(pods_there_are);
    const bool read_only = below(2) == 0;
    const int code = code_of([&] {
      process_->node.publish({{volume.id, staging(volume), target(volume, pod), capability(), read_only}, {}});
    });
    const auto old = volume.pods.find(pod);
    if (!volume.staged) {
      ASSERT_EQ(code, number(Code::failed_precondition)) << said_;
    } else if (old != volume.pods.end() && old->second != read_only) {
      ASSERT_EQ(code, number(Code::already_exists)) << said_;
    } else {
      ASSERT_EQ(code, 0) << said_;
      volume.pods[pod] = read_only;
    }
  }

  void unpublish(ModelVolume& volume) {
    const int pod = below(pods_there_are);
    ASSERT_EQ(code_of([&] { process_->node.unpublish(volume.id, target(volume, pod)); }), 0) << said_;
    volume.pods.erase(pod);
  }

  void grow(ModelVolume& volume) {
    const std::int64_t wanted = volume.bytes + (below(20) - 5) * mebibyte;
    const int code = code_of([&] {
      process_->node.expand(volume.id, staging(volume), {std::max<std::int64_t>(wanted, 1), 0});
    });
    if (!volume.staged) {
      ASSERT_EQ(code, number(Code::not_found)) << said_;
    } else if (wanted > volume.bytes && wanted - volume.bytes > left()) {
      ASSERT_EQ(code, number(Code::resource_exhausted)) << said_;
    } else {
      ASSERT_EQ(code, 0) << said_;
      volume.bytes = std::max(volume.bytes, wanted);
    }
  }

  void snapshot(const ModelVolume& volume) {
    const std::string name = "s" + std::to_string(below(3));
    std::string id;
    const int code = code_of([&] { id = process_->controller.create_snapshot(name, volume.id, {}).id; });
    const auto old = snapshots_.find(name);
    if (old != snapshots_.end()) {
      ASSERT_EQ(code, old->second.source == volume.id ? 0 : number(Code::already_exists)) << said_;
    } else if (volume.bytes > left()) {
      ASSERT_EQ(code, number(Code::resource_exhausted)) << said_;
    } else {
      ASSERT_EQ(code, 0) << said_;
      snapshots_[name] = {id, volume.id, volume.bytes, volume.content};
    }
  }

  void remove_snapshot() {
    const std::string name = "s" + std::to_string(below(3));
    const auto old = snapshots_.find(name);
    const std::string id = old == snapshots_.end() ? "no-such-snapshot" : old->second.id;
    ASSERT_EQ(code_of([&] { process_->controller.delete_snapshot(id); }), 0) << said_;
    snapshots_.erase(name);
  }

  void call_something() {
    const int what = below(12);
    if (what < 2) return create();
    if (what == 2) return remove_snapshot();
    if (what == 3 && below(4) == 0) {
      process_ = std::make_unique<Process>(pool_->path());
      return;
    }
    if (volumes_.empty()) return;
    const auto chosen = std::next(volumes_.begin(), below(static_cast<int>(volumes_.size())));
    ModelVolume& volume = chosen->second;
    switch (what) {
      case 4:
        return remove(std::string(chosen->first), volume);
      case 5:
      case 6:
        return stage(volume);
      case 7:
        return unstage(volume);
      case 8:
        return publish(volume);
      case 9:
        return unpublish(volume);
      case 10:
        return grow(volume);
      default:
        return snapshot(volume);
    }
  }

  void compare() {
    const VolumeList list = process_->controller.list_volumes(0, "");
    ASSERT_EQ(list.entries.size(), volumes_.size());
    ASSERT_EQ(process_->controller.list_snapshots(0, "", "", "").entries.size(), snapshots_.size());
    ASSERT_EQ(process_->controller.capacity({}, {}, {}).available, left());
    std::size_t mounts = 0;
    for (const auto& [name, volume] : volumes_) {
      ASSERT_EQ(process_->controller.get_volume(volume.id).volume.record.bytes, volume.bytes);
      if (volume.staged) {
        ASSERT_EQ(read_file(staging(volume) + "/file"), volume.content);
      }
      for (const auto& [pod, read_only] : volume.pods)
        ASSERT_EQ(read_file(target(volume, pod) + "/file"), volume.content);
      mounts += (volume.staged ? 1 : 0) + volume.pods.size();
    }
    // The pool's own mount is one more.
    ASSERT_EQ(static_cast<std::size_t>(count_mounts_below(pool_->folder())), mounts + 1);
  }

  std::unique_ptr<LoopPool> pool_;
  std::unique_ptr<Process> process_;
  std::map<std::string, ModelVolume> volumes_;
  std::map<std::string, Content> sources_;
  std::map<std::string, ModelSnapshot> snapshots_;
  std::int64_t room_ = 0;
  unsigned long seed_ = 0;
  std::mt19937_64 random_;
  std::string said_;
};

TEST_F(ModelTest, RandomCallsAreAnsweredAsTheModelAnswers) {
  const bool full = std::getenv("SLUICE_TEST_FULL") != nullptr;
  const int calls = full ? 100000 : 1500;
  for (int i = 0; i < calls; ++i) {
    call_something();
    if (!HasFatalFailure()) compare();
    if (HasFatalFailure()) {
      FAIL() << "call " << i << " of SLUICE_CSI_SEED=" << seed_;
    }
  }
}

TEST_F(ModelTest, TwoHundredVolumesAreListedAndLeaveNothing) {
  std::vector<std::string> ids;
  for (int i = 0; i < 200; ++i) {
    CreateVolumeCall call;
    call.name = "pvc-" + std::to_string(i);
    call.range.required = mebibyte;
    call.capabilities = {capability()};
    ids.push_back(process_->controller.create_volume(call).record.id);
    const ModelVolume volume = {ids.back(), 0, "", false, {}};
    process_->node.stage({ids.back(), staging(volume), capability(), {}, {}});
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(process_->controller.list_volumes(0, "").entries.size(), 200U);
  const auto took = std::chrono::steady_clock::now() - begin;
  RecordProperty("list_us", static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  for (const std::string& id : ids) {
    process_->node.unstage(id, pool_->at("staging/" + id));
    process_->controller.delete_volume(id);
  }
  EXPECT_EQ(count_mounts_below(pool_->folder()), 1);
  EXPECT_EQ(process_->controller.capacity({}, {}, {}).available, room_);
}

}  // namespace
}  // namespace sluice::csi

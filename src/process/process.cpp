// SPDX-License-Identifier: Apache-2.0
// Opening, closing, and living through fork.
#include "process/process.h"

#include <fmt/format.h>
#include <pthread.h>
#include <algorithm>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/failure.h"
#include "batch/batch.h"
#include "batch/batch_calls.h"
#include "config/denylist.h"
#include "facts/root.h"
#include "gpu/cuda_api.h"
#include "gpu/fork.h"
#include "gpu/memory.h"
#include "gpu/peers.h"
#include "gpu/session.h"
#include "io/fork.h"
#include "nvfs/client.h"
#include "observe/fork.h"
#include "observe/log.h"
#include "observe/ranges.h"
#include "observe/recorder.h"
#include "observe/statistics.h"
#include "plan/plan.h"
#include "plan/plan_calls.h"
#include "process/in_flight.h"
#include "request/explain.h"
#include "staging/fork.h"
#include "staging/neighbour.h"
#include "stream/channel/stream_channel.h"
#include "stream/streams.h"
#include "topology/told.h"
#include "workers/aside.h"
#include "workers/fork.h"

namespace sluice::process {

using base::Failure;

namespace {

paths::CopyMode copy_mode_of(const config::Config& config) {
  if (config.plain) return paths::CopyMode::plain;
  return paths::copy_mode_named(config.text(config::key_at("sluice.copy")));
}

paths::RdmaOptions rdma_options_of(const config::Config& config) {
  paths::RdmaOptions options;
  options.writes = config.flag(config::key_at("properties.gds_rdma_write_support"));
  options.balance = rdma::balance_named(config.text(config::key_at("properties.rdma_load_balancing_policy")))
                        .value_or(rdma::Balance::round_robin);
  const std::string& peer_type = config.text(config::key_at("properties.rdma_peer_type"));
  if (peer_type == "dmabuf") options.peer_type = rdma::PeerType::dma_buf;
  if (peer_type == "peer_mem") options.peer_type = rdma::PeerType::peer_memory;
  options.nearest = static_cast<int>(config.number(config::key_at("properties.rdma_topN_ranks")));
  constexpr unsigned known_rights = 7;  // of libibverbs: the adapter writes here; others write, and read
  const std::string& mask = config.text(config::key_at("properties.rdma_access_mask"));
  options.access = static_cast<unsigned>(std::strtoul(mask.c_str(), nullptr, 16)) & known_rights;
  options.operation_limit_ms = static_cast<std::uint32_t>(config.number(config::key_at("sluice.operation_timeout_ms")));
  return options;
}

paths::SmallReads small_reads_of(const config::Config& config) {
  const std::string_view chosen = config.text(config::key_at("sluice.small_reads"));
  if (chosen == "copy") return paths::SmallReads::copied;
  if (chosen == "resident") return paths::SmallReads::resident;
  return chosen == "window" ? paths::SmallReads::bar_mapping : paths::SmallReads::automatic;
}

// Not where everything is to go one certain way.
gpu::Coherent coherent_of(const config::Config& config, paths::CopyMode copy_mode) {
  const std::string_view chosen = config.text(config::key_at("sluice.coherent"));
  if (copy_mode != paths::CopyMode::usual || chosen == "off") return gpu::Coherent::never;
  return chosen == "on" ? gpu::Coherent::always : gpu::Coherent::automatic;
}

// What the bus does not tell, of this machine.
topology::Told told_here() {
  topology::Told told{.addresses = topology::own_addresses()};
  const std::vector<gpu::PeerFacts> peers = gpu::peer_facts();
  told.peers_known = !peers.empty();
  for (const gpu::PeerFacts& pair : peers) {
    told.peers.push_back({.one = pair.one, .other = pair.other, .access = pair.access, .nvlink = pair.nvlink});
  }
  return told;
}

static_assert(config::most_gpus == gpu::max_devices, "sluice.links names the GPUs that the library keeps");

// Asked with locks held, where nothing may be loaded: who comes here has attached the driver before.
bool has_real_gpu() {
  const gpu::CudaApi* const driver = gpu::driver();
  return driver != nullptr && !driver->soft;
}

}  // namespace

Process::Process()
    : store_(config::Sources{.has_real_gpu = &has_real_gpu}),
      registrations_(*this),
      batches_(std::make_unique<batch::BatchTable>()),
      plans_(std::make_unique<plan::PlanTable>()),
      streams_(std::make_unique<stream::Streams>()) {
  ::pthread_atfork([] { instance().prepare_fork(); }, [] { instance().resume_after_fork(false); },
                   [] { instance().resume_after_fork(true); });
}

namespace {

const char* direct_paths_of(const route::Rules& rules) noexcept {
  if (rules.use_pci_p2pdma && rules.use_nvfs) {
    return "driver opened: the paths p2pdma and nvfs are used wherever a trial succeeds";
  }
  if (rules.use_pci_p2pdma) return "driver opened: the path p2pdma is used wherever a trial succeeds";
  if (rules.use_nvfs) return "driver opened: the path nvfs is used wherever trials succeed";
  return "driver opened in compatibility mode: use_pci_p2pdma is off, so transfers take the posix path";
}

// The program may end contexts next. A driver that keeps the thread aside has it give back what there is when it is
// through: an end of the process waits for that, also where a destructor of the program's closes.
void give_neighbours_back(DrainMode drain_mode) noexcept {
  if (drain_mode == DrainMode::none) return;
  if (!workers::is_aside() && !staging::holds_of_neighbours()) return;
  const auto give_all = [] { staging::free_unused_neighbours(std::chrono::nanoseconds(0)); };
  if (!workers::run_behind(give_all)) return give_all();
  if (!workers::wait_for_aside(std::chrono::milliseconds(500))) wait_for_transfers_at_exit();
}

}  // namespace

Process& Process::instance() {
  static auto* const process = new Process;
  return *process;
}

void Process::open_locked() {
  std::vector<config::Note> notes;
  auto session = std::make_shared<DriverSession>();
  session->config = store_.begin_session(notes);
  const config::Config& config = *session->config;
  if (std::string refusal = observe::open_log(config); !refusal.empty()) {
    // There is no log that could tell it.
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) config::say_on_stderr("sluice: the log: " + refusal + "\n");
    notes.push_back({config::LogLevel::warn, std::move(refusal)});
  }
  for (const config::Note& note : notes) observe::log(note.level, "config", note.text);
  if (const std::string refusal = gpu::driver_refusal(); !refusal.empty()) {
    observe::log(config::LogLevel::error, "gpu", refusal);
  }

  session->options.rules.plain = config.plain;
  session->options.rules.force_compat =
      config.flag(CUFILE_PARAM_FORCE_COMPAT_MODE) || config.flag(CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE);
  session->options.rules.use_pci_p2pdma = config.flag(CUFILE_PARAM_USE_PCIP2PDMA);
  session->options.rules.allow_compat = config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
  const std::string& nvfs = config.text(config::key_at("sluice.nvfs"));
  session->options.rules.use_nvfs = nvfs != "off";
  session->options.rules.nvfs_first = nvfs == "first";
  // Kernel symbols take a while to search: only where that is asked for.
  session->options.machine =
      facts::of_machine(facts::Root{}, session->options.rules.use_pci_p2pdma ? facts::KernelSearch::symbols
                                                                             : facts::KernelSearch::configuration);
  if (!route::compat_is_allowed(session->options.rules) &&
      !route::has_direct_way(session->options.machine, session->options.rules)) {
    store_.refuse_session();
    throw Failure(
        CU_FILE_DRIVER_NOT_INITIALIZED,
        "properties.allow_compat_mode is off, and this machine has no way to device memory but through the "
        "CPU: switch it on (CUFILE_ALLOW_COMPAT_MODE=true), switch properties.use_pci_p2pdma on where the kernel "
        "has PCI_P2PDMA, or load nvidia-fs.ko and switch sluice.nvfs on");
  }
  session->denies = config::denies_anything(config);
  session->options.copy_mode = copy_mode_of(config);
  session->options.streams_by_engine = session->options.copy_mode == paths::CopyMode::copy_engine &&
                                       config.setting(config::key_at("sluice.copy")).origin != config::Origin::measured;
  session->options.small_reads = small_reads_of(config);
  session->options.coherent = coherent_of(config, session->options.copy_mode);
  session->options.disk_way = io::disk_way_named(config.text(config::key_at("sluice.disk_reads")));
  const std::uint64_t most_lent = std::uint64_t{config.size(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB)} * 1024;
  const std::string& links = config.text(config::key_at("sluice.links"));
  const auto least = static_cast<std::uint64_t>(config.number(config::key_at("sluice.links_min_kb"))) * 1024;
  const std::optional<staging::LendingRules> lending = staging::lending_rules(links, least, most_lent);
  if (!lending) {
    observe::log(
        config::LogLevel::error, "config",
        fmt::format("sluice.links is {}: neither auto nor own nor lend nor ordinals of GPUs, as 0,2; own holds",
                    links));
  }
  session->options.lending = lending.value_or(staging::LendingRules{});
  const std::string& links_copy = config.text(config::key_at("sluice.links_copy"));
  session->options.lending.by_kernel = links_copy != "engine";
  if (links_copy != "kernel") session->options.lending.switches_peers = false;
  if (!session->options.lending.asked && !session->options.lending.by_kernel) session->options.lending.on = false;
  session->options.verify = config.verify;
  session->options.rdma = rdma_options_of(config);
  session->options.config = &config;
  if (config.flag(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE)) {
    session->options.completion =
        config.poll_thread ? io::CompletionMode::polled_by_kernel : io::CompletionMode::polled;
    session->options.polled_up_to = std::uint64_t{config.size(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB)} * 1024;
  }
  if (!config.plain) {
    for (const config::MeasuredMount& mount : config.measured.mounts) {
      session->options_there.emplace_back(&mount, options_as_measured(session->options, mount));
    }
  }
  session->routes = std::make_unique<topology::RouteTable>(session->config, facts::Root{}, told_here);
  session->attachments = paths::attachments_of_session(session->options);
  observe::open_statistics(static_cast<int>(config.size(CUFILE_PARAM_PROFILE_STATS)));
  observe::start_ranges(config.flag(config::key_at("profile.nvtx")));
  observe::start_recorder(config.text(config::key_at("profile.trace")));
  session_ = std::move(session);
  if (!was_open_) wait_for_transfers_at_exit();
  was_open_ = true;
  observe::log(config::LogLevel::notice, "process", direct_paths_of(session_->options.rules));
}

void Process::open() {
  gpu::attach_driver();
  const std::lock_guard lock(control_);
  if (use_count_ == 0) open_locked();
  ++use_count_;
}

const std::shared_ptr<const DriverSession>& Process::ensure_open_locked() {
  if (use_count_ == 0) {
    open_locked();
    use_count_ = 1;
  }
  return session_;
}

std::shared_ptr<const DriverSession> Process::session_or_open() {
  // Without the lock: the loader has one of its own, and a library's constructor may call us while it holds that.
  gpu::attach_driver();
  const std::lock_guard lock(control_);
  return ensure_open_locked();
}

std::shared_ptr<const DriverSession> Process::session() {
  const std::lock_guard lock(control_);
  return session_;
}

bool Process::was_open() {
  const std::lock_guard lock(control_);
  return was_open_;
}

long Process::use_count() {
  const std::lock_guard lock(control_);
  return use_count_;
}

void Process::close() {
  Registrations::Taken registered;
  std::vector<void*> batches;
  std::vector<void*> plans;
  {
    const std::lock_guard lock(control_);
    if (use_count_ == 0) throw Failure(CU_FILE_DRIVER_NOT_INITIALIZED, "the driver is not open: nothing to close");
    if (use_count_ > 1) {
      --use_count_;
      return;
    }
    // Where there is no memory for these, the driver stays open.
    batches = batches_->handles();
    plans = plans_->handles();
    registered = registrations_.take_all_locked();
    use_count_ = 0;
    p2p_masks_ = {};
    streams_->clear();
    session_.reset();
    store_.end_session();
  }
  // Outside the lock: each waits for the transfers that use it, and those may belong to threads that want to register
  // something.
  const DrainMode drain_mode = drain_mode_now();
  for (void* plan : plans) plan::end_plan(*plans_, plan, drain_mode);  // streams may wait for them
  if (drain_mode != DrainMode::none) streams_->wait_for(nullptr);
  for (void* batch : batches) batch::end_batch(*batches_, batch, drain_mode);
  registrations_.end(registered, drain_mode);
  give_neighbours_back(drain_mode);
  observe::log(config::LogLevel::info, "process", "driver closed");
}

bool Process::end_file(void* handle) {
  const PinScope pins;
  const FileTable::Pin file = registrations_.forget_file(handle);
  if (file && file->session->config->explain) request::explain_unused(*file);
  if (file)
    observe::log_debug("process", [&] { return fmt::format("descriptor {} deregistered", file->descriptor()); });
  return static_cast<bool>(file);
}

void Process::deregister_file(void* handle) {
  if (!end_file(handle)) {
    files().retire(handle, drain_mode_now());  // nothing but a wait for the thread that has begun to end it
    throw Failure(
        CU_FILE_HANDLE_NOT_REGISTERED,
        "this handle is not registered: it was deregistered already, or never came from cuFileHandleRegister");
  }
  // What stands in streams may still want the file. It waits for streams that may wait for the caller: so not for long.
  if (drain_mode_now() != DrainMode::none) streams_->wait_for(handle);
  files().retire(handle, drain_mode_now());
}

void Process::set_p2p_mask(std::size_t kind, unsigned mask) {
  const std::lock_guard lock(control_);
  p2p_masks_[kind] = mask;
}

unsigned Process::p2p_mask(std::size_t kind) {
  const std::lock_guard lock(control_);
  return p2p_masks_[kind];
}

const Options& DriverSession::options_for(const facts::FileFacts& file) const noexcept {
  if (options_there.empty()) return options;
  const config::MeasuredMount* const mount = measured_for(config->measured, file);
  const auto found = std::find_if(options_there.begin(), options_there.end(),
                                  [mount](const auto& each) { return each.first == mount; });
  return found == options_there.end() ? options : found->second;
}

std::vector<paths::PairReport> DriverSession::pair_reports() const {
  std::vector<paths::PairReport> all;
  for (const auto& attachment : attachments) {
    if (!attachment) continue;
    for (paths::PairReport& report : attachment->reports()) all.push_back(std::move(report));
  }
  return all;
}

void Process::attachments_before_fork() {
  if (!session_) return;
  session_->routes->before_fork();
  for (const auto& attachment : session_->attachments) {
    if (attachment) attachment->before_fork();
  }
}

void Process::attachments_after_fork() {
  if (!session_) return;
  session_->routes->after_fork();
  for (const auto& attachment : session_->attachments) {
    if (attachment) attachment->after_fork();
  }
}

// Each folder has its part in its fork.h; locks are taken from the outermost on, and let go the other way round.
void Process::prepare_fork() {
  control_.lock();
  store_.before_fork();
  registrations_.before_fork();
  batches_->before_fork();
  batch::Batch::RunQueue::instance().before_fork();
  plans_->before_fork();
  plan::Plan::RunQueue::instance().before_fork();
  streams_->before_fork();
  gpu::before_fork();
  io::before_fork();
  workers::before_fork();
  staging::before_fork();
  attachments_before_fork();
  nvfs::client().before_fork();
  stream::channels_before_fork();
  observe::before_fork();
}

void Process::resume_after_fork(bool in_child) {
  observe::after_fork(in_child);
  stream::channels_after_fork(in_child);
  nvfs::client().after_fork(in_child);
  attachments_after_fork();
  staging::after_fork(in_child);
  workers::after_fork(in_child);
  io::after_fork(in_child);
  gpu::after_fork(in_child);
  streams_->after_fork(in_child);
  plan::Plan::RunQueue::instance().after_fork(in_child);
  plans_->after_fork(in_child);
  batch::Batch::RunQueue::instance().after_fork(in_child);
  batches_->after_fork(in_child);
  registrations_.after_fork(in_child);
  store_.after_fork();
  control_.unlock();
  if (!in_child) return;
  batches_->abandon_all();
  plans_->abandon_all();
  transfers_after_fork_in_child();
}

}  // namespace sluice::process

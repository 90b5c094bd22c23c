// SPDX-License-Identifier: Apache-2.0
// Who wins, what binds, and how long it lasts: defaults, file, environment, parameters, driver lives.
#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "base/failure.h"
#include "config/sources.h"
#include "config/store.h"

namespace sluice::config {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

CUfileOpError code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::Failure& failure) {
    EXPECT_FALSE(failure.sentence().empty());
    return failure.code();
  }
  return CU_FILE_SUCCESS;
}

TEST(Defaults, AreTheStockValuesInTheOrderOfTheirEnumeration) {
  const Config config;
  const std::array<std::size_t, size_parameter_count> stock{0,      128,  4,        8192, 4, 16384,
                                                            131072, 1024, 33554432, 128,  4, 5};
  EXPECT_EQ(config.sizes, stock);
  EXPECT_TRUE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  EXPECT_TRUE(config.flag(CUFILE_PARAM_EXECUTION_PARALLEL_IO));
  EXPECT_TRUE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY));
  EXPECT_FALSE(config.flag(CUFILE_PARAM_USE_PCIP2PDMA));
  EXPECT_EQ(config.log_level, "ERROR");
  EXPECT_FALSE(config.log_file_given);
  EXPECT_THAT(config.posix_slabs.sizes_kb, ElementsAre(4u, 1024u, 16384u));
  EXPECT_THAT(config.posix_slabs.counts, ElementsAre(128u, 64u, 64u));
  EXPECT_THAT(config.gpu_slabs.sizes_kb, IsEmpty());
}

TEST(Defaults, BindNobodyAndSayNothing) {
  Pretended machine;
  const Config config = machine.read();
  EXPECT_THAT(config.notes, IsEmpty());
  for (std::size_t i = 0; i < key_count; ++i) {
    EXPECT_EQ(config.setting(i).origin, Origin::built_in) << keys[i].name;
    EXPECT_FALSE(config.binds(i)) << keys[i].name;
  }
}

TEST(Defaults, TablesAreInTheOrderOfTheirEnumerations) {
  for (std::size_t i = 0; i < size_parameter_count; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(size_parameters[i].id), i);
    EXPECT_TRUE(in_range(size_parameters[i], size_parameters[i].standard)) << size_parameters[i].key;
    EXPECT_EQ(keys[size_parameters[i].index].kind, Kind::number);
  }
  for (std::size_t i = 0; i < bool_parameter_count; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(bool_parameters[i].id), i);
    EXPECT_EQ(keys[bool_parameters[i].index].kind, Kind::flag);
  }
}

// Every combination of the three who may speak, on keys that all three can reach.
TEST(Precedence, IsParameterThenEnvironmentThenFileThenDefault) {
  for (int speakers = 0; speakers < 8; ++speakers) {
    const bool file = (speakers & 1) != 0;
    const bool environment = (speakers & 2) != 0;
    const bool parameter = (speakers & 4) != 0;
    Pretended machine;
    if (file) machine.write(R"({"logging": {"level": "INFO"}, "properties": {"use_pci_p2pdma": true}})");
    if (environment) {
      machine.set("CUFILE_LOGGING_LEVEL", "debug");
      machine.set("CUFILE_USE_PCIP2PDMA", "0");
    }
    Store store(machine.sources());
    if (parameter) {
      store.set(CUFILE_PARAM_LOGGING_LEVEL, "TRACE");
      store.set(CUFILE_PARAM_USE_PCIP2PDMA, true);
    }
    const Origin origin = parameter     ? Origin::parameter
                          : environment ? Origin::environment
                          : file        ? Origin::file
                                        : Origin::built_in;
    const char* level = parameter ? "TRACE" : environment ? "DEBUG" : file ? "INFO" : "ERROR";
    const bool p2pdma = parameter || (!environment && file);
    std::vector<Note> notes;
    for (const auto& config : {store.current(), store.begin_session(notes), store.current()}) {
      EXPECT_EQ(config->log_level, level) << speakers;
      EXPECT_EQ(config->setting(key_at("logging.level")).origin, origin) << speakers;
      EXPECT_EQ(config->flag(CUFILE_PARAM_USE_PCIP2PDMA), p2pdma) << speakers;
      EXPECT_EQ(config->setting(key_at("properties.use_pci_p2pdma")).origin, origin) << speakers;
      EXPECT_EQ(config->binds(key_at("properties.use_pci_p2pdma")), speakers != 0) << speakers;
    }
  }
}

TEST(Precedence, HoldsForEveryVariable) {
  for (std::size_t i = 0; i < key_count; ++i) {
    const Key& key = keys[i];
    if (key.environment.empty()) continue;
    const char* word = key.kind == Kind::flag              ? "1"
                       : key.name == "sluice.api_version"  ? "1190"
                       : key.name == "sluice.links_min_kb" ? "256"
                       : key.kind == Kind::number          ? "3"
                       : key.kind == Kind::level           ? "TRACE"
                       : key.kind == Kind::hex             ? "0x17"
                       : key.name == "sluice.mode"         ? "plain"
                       : key.name == "sluice.copy"         ? "engine"
                       : key.name == "sluice.small_reads"  ? "resident"
                       : key.name == "sluice.coherent"     ? "on"
                       : key.name == "sluice.disk_reads"   ? "iopoll"
                       : key.name == "sluice.nvfs"         ? "first"
                       : key.name == "sluice.links_copy"   ? "engine"
                       : key.kind == Kind::links           ? "0,2"
                       : key.kind == Kind::choice          ? "high"
                                                           : "/x";
    Pretended machine;
    machine.set(std::string(key.environment), word);
    const Config config = machine.read();
    EXPECT_EQ(config.setting(i).origin, Origin::environment) << key.environment;
    EXPECT_TRUE(config.binds(i)) << key.environment;
    machine.set(std::string(key.environment), "no such value, whatever the key");
    EXPECT_EQ(machine.read().setting(i).origin, key.kind == Kind::text ? Origin::environment : Origin::built_in)
        << key.environment;
    machine.set(std::string(key.environment), "");
    // An empty variable is none, but for the log file.
    EXPECT_EQ(machine.read().setting(i).origin, key.name == "sluice.log_file" ? Origin::environment : Origin::built_in)
        << key.environment;
  }
}

// What NVIDIA's packages put into /etc, in our own words: every value is the stock one.
constexpr const char* stock_file = R"({
  // a file with the values that come with CUDA
  "logging": {"level": "ERROR"},
  "profile": {"nvtx": false, "cufile_stats": 0},
  "execution": {"max_io_queue_depth": 128, "max_io_threads": 4, "parallel_io": true,
                "min_io_threshold_size_kb": 8192, "max_request_parallelism": 4},
  "properties": {"max_direct_io_size_kb": 1024, "max_device_cache_size_kb": 131072, "per_buffer_cache_size_kb": 1024,
                 "max_device_pinned_mem_size_kb": 33554432, "use_poll_mode": false, "poll_mode_max_size_kb": 4,
                 "use_pci_p2pdma": false, "allow_compat_mode": true, "gds_rdma_write_support": true,
                 "io_batchsize": 128, "io_priority": "default", "rdma_dev_addr_list": [],
                 "rdma_load_balancing_policy": "RoundRobin", "rdma_dynamic_routing": false,
                 "rdma_dynamic_routing_order": ["GPU_MEM_NVLINKS", "GPU_MEM", "SYS_MEM", "P2P"]},
  "fs": {"generic": {"posix_unaligned_writes": false},
         "beegfs": {"posix_gds_min_kb": 0, "rdma_dev_addr_list": []}, "lustre": {"posix_gds_min_kb": 0},
         "nfs": {"rdma_dev_addr_list": []}, "gpfs": {"gds_write_support": false, "gds_async_support": true},
         "weka": {"rdma_write_support": false}},
  "denylist": {"drivers": [], "devices": [], "mounts": [], "filesystems": []},
  "miscellaneous": {"api_check_aggressive": false} /* the end */
})";

TEST(Policy, TakesAStockFileForNobodysWish) {
  const Config config = config_of(stock_file);
  EXPECT_THAT(config.notes, IsEmpty());
  int given = 0;
  for (std::size_t i = 0; i < key_count; ++i) {
    given += config.setting(i).origin == Origin::file ? 1 : 0;
    EXPECT_FALSE(config.binds(i)) << keys[i].name;
  }
  EXPECT_EQ(given, 36);
  EXPECT_EQ(config.size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 1024u) << "reported as configured";
}

TEST(Policy, BindsAStockFileThatSaysStrict) {
  std::string text = stock_file;
  text.replace(0, 1, "{\"sluice\": {\"strict\": true},");
  const Config config = config_of(text);
  for (std::size_t i = 0; i < key_count; ++i) {
    EXPECT_EQ(config.binds(i), config.setting(i).origin == Origin::file) << keys[i].name;
  }
}

TEST(Policy, BindsWhatDiffersFromTheStockFileAndWhatIsSaidElsewhere) {
  Pretended machine;
  machine.write(R"({"execution": {"max_io_threads": 5, "max_request_parallelism": 4}})");
  machine.set("CUFILE_ALLOW_COMPAT_MODE", "true");
  const Config config = make_config(machine.sources(), {{key_at("properties.io_batchsize"), std::int64_t{128}}});
  EXPECT_TRUE(config.binds(key_at("execution.max_io_threads")));
  EXPECT_FALSE(config.binds(key_at("execution.max_request_parallelism")));
  EXPECT_TRUE(config.binds(key_at("properties.allow_compat_mode")));
  EXPECT_TRUE(config.binds(key_at("properties.io_batchsize")));
}

TEST(Policy, NotesKeysThatChangeNothingOnceSomebodyWantsThem) {
  Pretended machine;
  machine.write(R"({"properties": {"rdma_max_backup_devices": 2, "rdma_dynamic_routing": false, "io_batchsize": 3}})");
  EXPECT_THAT(notes_at(machine.read(), LogLevel::info), ElementsAre(HasSubstr("properties.rdma_max_backup_devices")));
}

TEST(OwnKeys, DoWhatTheirVariablesDo) {
  const Config from_file =
      config_of(R"({"sluice": {"mode": "plain", "verify": true, "explain": true, "log_file": "/x/y.log"}})");
  Pretended machine;
  machine.set("SLUICE_MODE", "plain");
  machine.set("SLUICE_VERIFY", "yes");
  machine.set("SLUICE_EXPLAIN", "1");
  machine.set("CUFILE_LOGFILE_PATH", "/x/y.log");
  for (const Config& config : {from_file, machine.read()}) {
    EXPECT_TRUE(config.plain && config.verify && config.explain && config.log_file_given);
    EXPECT_EQ(config.log_file, "/x/y.log");
  }
}

TEST(Environment, NamesWhatItCannotReadAndKeepsTheDefault) {
  Pretended machine;
  machine.set("SLUICE_VERIFY", "perhaps");
  machine.set("SLUICE_MODE", "fast");
  machine.set("CUFILE_LOGGING_LEVEL", "LOUD");
  machine.set("CUFILE_ALLOW_COMPAT_MODE", "2");
  machine.set("CUFILE_LOGFILE_MAX_SIZE_MB", "1\n2");
  const Config config = machine.read();
  EXPECT_FALSE(config.verify);
  EXPECT_FALSE(config.plain);
  EXPECT_EQ(config.log_level, "ERROR");
  EXPECT_TRUE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  const auto warnings = notes_at(config, LogLevel::warn);
  EXPECT_THAT(warnings, SizeIs(5));
  EXPECT_THAT(warnings, testing::Contains("SLUICE_MODE takes auto or plain, not \"fast\"; it is ignored"));
  EXPECT_THAT(warnings, testing::Contains(HasSubstr("not 1?2;")));
}

TEST(Environment, GivesAnEmptyLogPathToMeanNoLog) {
  Pretended machine;
  machine.set("CUFILE_LOGFILE_PATH", "");
  EXPECT_TRUE(machine.read().log_file_given);
  EXPECT_TRUE(machine.read().log_file.empty());
}

TEST(Staging, IsUsedUpByTheNextLifeAndWinsOverTheDefaults) {
  Pretended machine;
  Store store(machine.sources());
  std::vector<Note> notes;
  store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 7);
  store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8);
  EXPECT_EQ(store.current()->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8u);
  EXPECT_EQ(store.begin_session(notes)->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8u);
  store.end_session();
  EXPECT_EQ(store.begin_session(notes)->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 4u);
}

TEST(Staging, KeepsEverythingElseToTheFileOfTheTimeOfOpening) {
  Pretended machine;
  machine.write(R"({"execution": {"max_io_threads": 5, "max_io_queue_depth": 50}})");
  Store store(machine.sources());
  store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8);
  machine.write(R"({"execution": {"max_io_threads": 6, "max_io_queue_depth": 60}})");
  std::vector<Note> notes;
  const auto config = store.begin_session(notes);
  EXPECT_EQ(config->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8u);
  EXPECT_EQ(config->size(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH), 60u);
}

TEST(Staging, TakesAnyNumberAndHoldsWhatIsInRange) {
  Pretended machine;
  Store store(machine.sources());
  for (const SizeParameter& parameter : size_parameters) {
    EXPECT_EQ(code_of([&] { store.set(parameter.id, parameter.highest + 1); }), CU_FILE_SUCCESS) << parameter.key;
    EXPECT_EQ(store.shown(parameter.id), parameter.highest + 1) << "until an open";
    EXPECT_EQ(store.current()->size(parameter.id), parameter.standard);
    ASSERT_THAT(store.current()->notes, SizeIs(1));
    EXPECT_THAT(store.current()->notes[0].text, StartsWith(std::string(parameter.key)));
    EXPECT_EQ(code_of([&] { store.set(parameter.id, parameter.highest); }), CU_FILE_SUCCESS) << parameter.key;
    EXPECT_EQ(store.current()->size(parameter.id), parameter.highest);
    EXPECT_EQ(code_of([&] { store.set(parameter.id, parameter.lowest); }), CU_FILE_SUCCESS) << parameter.key;
    EXPECT_EQ(store.current()->size(parameter.id), parameter.lowest);
  }
}

TEST(Shown, IsWhatNvidiasLibraryTellsOfADriverThatIsNotOpen) {
  Pretended machine;
  Store store(machine.sources());
  const auto sizes = [&] {
    std::vector<std::size_t> found;
    for (const SizeParameter& parameter : size_parameters) found.push_back(store.shown(parameter.id));
    return found;
  };
  EXPECT_THAT(sizes(), ElementsAre(0, 128, 0, 1024, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(store.shown(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  EXPECT_EQ(store.shown_log_level(), "");
  EXPECT_FALSE(store.shown_posix_slabs());
  store.set(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16);
  store.set(CUFILE_PARAM_LOGGING_LEVEL, "INFO");
  store.set(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, true);
  EXPECT_EQ(store.shown(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 16u);
  EXPECT_EQ(store.shown_log_level(), "INFO");
  EXPECT_TRUE(store.shown(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  std::vector<Note> notes;
  store.begin_session(notes);
  EXPECT_EQ(store.shown(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 16384u);
  EXPECT_TRUE(store.shown_posix_slabs());
  store.end_session();
  EXPECT_THAT(sizes(), ElementsAre(0, 128, 0, 1024, 0, 1024, 131072, 1024, 18014398509481980u, 128, 4, 5));
}

TEST(Staging, IsClosedWhileTheDriverRuns) {
  Pretended machine;
  Store store(machine.sources());
  std::vector<Note> notes;
  store.begin_session(notes);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8); }), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_FORCE_COMPAT_MODE, true); }), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_LOGGING_LEVEL, "INFO"); }), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code_of([&] { store.set_posix_slabs({{4}, {1}}); }), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code_of([&] { store.set_gpu_slabs({{4}, {1}}); }), CU_FILE_DRIVER_ALREADY_OPEN);
}

TEST(Staging, RefusesUnknownIdsAndEmptyTexts) {
  Pretended machine;
  Store store(machine.sources());
  EXPECT_EQ(code_of([&] { store.set(static_cast<CUFileSizeTConfigParameter_t>(99), 1); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set(static_cast<CUFileBoolConfigParameter_t>(-1), true); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_LOG_DIR, ""); }), CU_FILE_INVALID_VALUE);
}

TEST(Staging, TakesWhatCannotBeUsedAndTellsItOnce) {
  Pretended machine;
  Store store(machine.sources());
  store.set(CUFILE_PARAM_LOGGING_LEVEL, "bogus");
  store.set(CUFILE_PARAM_LOG_DIR, "/no/such/folder");
  store.set_posix_slabs({{4, 6, 7}, {1, 1, 1}});
  std::vector<Note> notes;
  store.begin_session(notes);
  ASSERT_EQ(notes.size(), 3u);
  for (const Note& note : notes) EXPECT_EQ(note.level, LogLevel::notice);
  EXPECT_EQ(notes[0].text, "logging.dir: there is no folder /no/such/folder; it stays as it was");
  EXPECT_EQ(notes[1].text, "logging.level takes NOTICE, ERROR, WARN, INFO, DEBUG or TRACE, not bogus: ERROR holds");
  EXPECT_EQ(notes[2].text,
            "properties.posix_pool_slab_size_kb takes multiples of 4, not 6; nothing depends on it here");
  EXPECT_EQ(store.current()->log_level, "bogus");
  EXPECT_EQ(store.current()->log_dir, "");
}

TEST(Adjusting, ShowsAtOnceAndLeavesValuesThatAreHeldAlone) {
  Pretended machine;
  Store store(machine.sources());
  std::vector<Note> notes;
  const auto held = store.begin_session(notes);
  store.adjust(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 1024);
  store.adjust(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, ~std::size_t{0});
  EXPECT_EQ(store.current()->size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 1024u);
  EXPECT_EQ(store.current()->size(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB), ~std::size_t{0});
  EXPECT_EQ(store.current()->setting(key_at("properties.max_direct_io_size_kb")).origin, Origin::parameter);
  EXPECT_EQ(held->size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 16384u);
  store.end_session();
  EXPECT_EQ(store.current()->size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 16384u);
}

TEST(Adjusting, BeforeTheOpenIsStaged) {
  Pretended machine;
  Store store(machine.sources());
  std::vector<Note> notes;
  store.adjust(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, true);
  EXPECT_TRUE(store.begin_session(notes)->flag(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE));
}

TEST(Lives, ReadTheFileAnew) {
  Pretended machine;
  Store store(machine.sources());
  std::vector<Note> notes;
  for (std::size_t level = 0; level < 4; ++level) {
    machine.write("{\"profile\": {\"cufile_stats\": " + std::to_string(level) + "}}");
    const auto config = store.begin_session(notes);
    machine.write("{\"profile\": {\"cufile_stats\": 0}}");
    EXPECT_EQ(store.current()->size(CUFILE_PARAM_PROFILE_STATS), level) << "what runs does not change";
    EXPECT_EQ(config, store.current());
    store.end_session();
  }
  EXPECT_THAT(notes, IsEmpty());
}

TEST(Lives, SayOneLineAboutABrokenFileAndOnlyOnce) {
  Pretended machine;
  machine.write("{\n\"execution\": {\n\"max_io_threads\": 4,,\n}}");
  Store store(machine.sources());
  std::vector<Note> notes;
  for (int life = 0; life < 3; ++life) {
    EXPECT_EQ(store.begin_session(notes)->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 4u);
    store.end_session();
  }
  ASSERT_THAT(machine.said(), SizeIs(1));
  EXPECT_THAT(machine.said()[0], StartsWith("sluice: " + machine.folder() + "/cufile.json:3: "));
  EXPECT_THAT(machine.said()[0], EndsWith("\n"));
  EXPECT_EQ(std::count(machine.said()[0].begin(), machine.said()[0].end(), '\n'), 1);
  EXPECT_THAT(notes, SizeIs(1));
}

TEST(Lives, CountFurtherFaultsInTheOneLine) {
  Pretended machine;
  machine.write("{\"execution\": {\"max_io_threads\": 99,\n\"parallel_io\": 1,\n\"max_io_queue_depth\": 0}}");
  Store store(machine.sources());
  std::vector<Note> notes;
  store.begin_session(notes);
  ASSERT_THAT(machine.said(), SizeIs(1));
  EXPECT_THAT(machine.said()[0], HasSubstr("cufile.json:1: execution.max_io_threads"));
  EXPECT_THAT(machine.said()[0], HasSubstr("(2 more: "));
  EXPECT_THAT(notes, SizeIs(3));
}

TEST(Lives, SayNothingOnStderrAboutUnknownKeysAndWarnOnce) {
  Pretended machine;
  machine.write(R"({"logging": {"levle": "INFO"}})");
  machine.set("SLUICE_MODE", "fast");
  Store store(machine.sources());
  std::vector<Note> notes;
  for (int life = 0; life < 3; ++life) {
    store.begin_session(notes);
    store.end_session();
  }
  EXPECT_THAT(machine.said(), IsEmpty());
  EXPECT_THAT(notes, SizeIs(2));
  EXPECT_THAT(store.current()->notes, SizeIs(2)) << "a caller that asks still learns them";
}

TEST(Lives, AskingBeforeTheOpenSaysNothing) {
  Pretended machine;
  machine.write("{");
  Store store(machine.sources());
  EXPECT_THAT(store.current()->notes, SizeIs(1));
  EXPECT_THAT(machine.said(), IsEmpty());
}

TEST(Lives, MayBeginAndEndWhileOthersAskAndSet) {
  Pretended machine;
  machine.write(R"({"profile": {"cufile_stats": 2}})");
  Store store(machine.sources());
  std::thread asking([&] {
    for (int i = 0; i < 300; ++i) {
      const auto config = store.current();
      EXPECT_EQ(config->size(CUFILE_PARAM_PROFILE_STATS), 2u);
    }
  });
  std::thread setting([&] {
    for (std::size_t i = 0; i < 300; ++i) {
      const auto code = code_of([&] { store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, i % 33); });
      EXPECT_TRUE(code == CU_FILE_SUCCESS || code == CU_FILE_DRIVER_ALREADY_OPEN) << code;
      store.adjust(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, i % 2 == 0);
    }
  });
  std::vector<Note> notes;
  for (int i = 0; i < 200; ++i) {
    store.begin_session(notes);
    store.end_session();
  }
  asking.join();
  setting.join();
  EXPECT_THAT(notes, IsEmpty());
}

}  // namespace
}  // namespace sluice::config

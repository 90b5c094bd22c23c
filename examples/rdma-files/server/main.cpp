// SPDX-License-Identifier: Apache-2.0
// rdma-files-server: serves the files of one folder, by name, to clients that know the secret.
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "server/server.h"

namespace {

using namespace rdma_files;

// A descriptor that becomes readable by SIGINT and SIGTERM, which then end nothing by themselves.
Fd end_signal() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return Fd(::signalfd(-1, &ends, SFD_CLOEXEC));
}

void print(const Counts& counts) {
  const auto value = [](const std::atomic<std::uint64_t>& count) { return static_cast<unsigned long long>(count); };
  std::printf(
      "{\"sessions\": %llu, \"refused_secrets\": %llu, \"transfers\": %llu, \"refused_keys\": %llu, \"lost_links\": "
      "%llu, "
      "\"bytes_read\": %llu, \"bytes_written\": %llu, \"rdma_writes\": %llu, \"rdma_reads\": %llu}\n",
      value(counts.sessions), value(counts.refused_secrets), value(counts.transfers), value(counts.refused_keys),
      value(counts.lost_links), value(counts.bytes_read), value(counts.bytes_written), value(counts.rdma_writes),
      value(counts.rdma_reads));
}

int serve(int argc, char** argv) {
  CLI::App app{
      "Serves the files of one folder, by name, over RDMA. At its end, by SIGTERM or SIGINT, it prints as JSON what it "
      "has done. README.md in the folder of its sources says how to use it."};
  ServerSettings settings;
  std::vector<std::string> listen;
  std::string secret;
  std::int64_t seconds = 30;
  app.add_option("--folder", settings.folder, "the folder; nothing outside of it can be reached")->required();
  app.add_option("--listen", listen,
                 "ADDRESS:PORT, more than once for more ports; the adapter that has this address is used")
      ->required();
  app.add_option("--secret-file", secret, "16 bytes or more, which only its owner can read")->required();
  app.add_option("--timeout", seconds, "seconds without progress after which a link or a message is given up (30)")
      ->check(CLI::Range(1, 3600));
  CLI11_PARSE(app, argc, argv);
  settings.secret = secret_from(secret);
  settings.time = std::chrono::seconds(seconds);
  for (const std::string& text : listen) settings.listen.push_back(endpoint_of(text));
  const Fd end = end_signal();
  Server server(std::move(settings));
  std::fprintf(stderr, "rdma-files-server: ready\n");
  server.run(end.get());
  print(server.counts());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return serve(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rdma-files-server: %s\n", error.what());
    return 1;
  }
}

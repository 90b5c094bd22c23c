# SPDX-License-Identifier: Apache-2.0
"""`gdscheck`: its layout, what it says of a configuration, and the line on stderr for a file that cannot be used."""
import json
import os
import re

from support import BUILD, behind_a_mount, contains, environment, equal, main, run, scratch

GDSCHECK = BUILD / "bin/gdscheck"

# The titles and rows that scripts look for, in their order.
TITLES = ["ENVIRONMENT:", "DRIVER CONFIGURATION:", "CUFILE CONFIGURATION:", "SLUICE CONFIGURATION:", "GPU INFO:",
          "PLATFORM INFO:"]
FIRST_ROWS = ["properties.use_pci_p2pdma", "properties.use_compat_mode", "properties.force_compat_mode",
              "properties.gds_rdma_write_support", "properties.use_poll_mode", "properties.poll_mode_max_size_kb",
              "properties.max_batch_io_size", "properties.max_batch_io_timeout_msecs",
              "properties.max_direct_io_size_kb"]
LAST_ROWS = ["execution.max_request_parallelism", "properties.force_odirect_mode", "properties.prefer_iouring"]


def report(*words, **variables):
    return run(GDSCHECK, "--soft", *words, env=environment(SLUICE_SOFTGPU="1", **variables))


def section(text, title):
    lines = text.splitlines()
    start = lines.index(f" {title}") + 2
    return lines[start:next((i for i in range(start, len(lines)) if lines[i].startswith(" ==")), len(lines))]


def with_file(folder, content):
    path = folder / "cufile.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
    return {"CUFILE_ENV_PATH_JSON": str(path)}


def test_gdscheck_has_the_layout_that_scripts_know():
    lines = report("-p").stdout.splitlines()
    equal([line.strip() for line in lines if line.strip() in TITLES], TITLES)
    for title in TITLES:
        at = lines.index(f" {title}")
        equal((lines[at - 1], lines[at + 1]), (" " + "=" * len(title),) * 2)
    equal(lines[0].startswith(" GDS release version: "), True)
    equal(lines[-1], " Platform verification succeeded")
    rows = [re.split(r" ?: ", line.strip())[0] for line in section("\n".join(lines), "CUFILE CONFIGURATION:")]
    equal(rows[:len(FIRST_ROWS)], FIRST_ROWS)
    equal(rows[-len(LAST_ROWS):], LAST_ROWS)
    equal(len(rows), 33)


def test_gdscheck_prints_the_rows_of_the_version_that_is_reported():
    old = report("-p").stdout
    new = report("-p", CUFILE_VERSION_COMPAT="1190").stdout
    contains(new, " GDS release version: 1.19.0 ")
    for row in (" NVMe               : compat\n", " VIRTIOFS           : compat\n", " --DmaBuf support      : Disabled\n",
                " properties.gpu_bounce_buffer_slab_count : 128 8 4 2\n", " properties.vanilla_posix_io_mode : false\n",
                " block.raid10.use_pci_p2pdma : false\n"):
        contains(new, row)
        equal(row in old, False)
    for row in (" NVMe P2PDMA        : Unsupported\n", " profile.nvtx : false\n"):
        contains(old, row)
        equal(row in new, False)


def test_gdscheck_spells_values_as_scripts_know_them():
    with scratch() as folder:
        text = report("-p", **with_file(folder, {
            "properties": {"posix_pool_slab_size_kb": [4, 64], "posix_pool_slab_count": [7, 8], "io_batchsize": 9,
                           "rdma_dynamic_routing": True, "rdma_dev_addr_list": ["10.0.0.1"]},
            "fs": {"weka": {"rdma_write_support": True}}})).stdout
    for row in (" properties.posix_pool_slab_size_kb : 4 64\n", " properties.posix_pool_slab_count : 7 8\n",
                " properties.max_batch_io_size : 9\n", " properties.rdma_dynamic_routing : 1\n",
                " properties.rdma_peer_affinity_policy : RoundRobin\n", " fs.weka.rdma_write_support: true\n"):
        contains(text, row)


def test_gdscheck_tells_of_every_key_who_said_it_and_what_comes_of_it():
    with scratch() as folder:
        variables = with_file(folder, {"execution": {"max_io_threads": 7, "max_io_queue_depth": 128},
                                       "properties": {"rdma_io_retry_count": 3}})
        text = report("-p", "-v", SLUICE_VERIFY="1", **variables).stdout
    rows = "\n".join(section(text, "SLUICE CONFIGURATION:"))
    for part in ("configuration file : " + variables["CUFILE_ENV_PATH_JSON"],
                 " execution.max_io_threads : 7  [file line 3; reported]",
                 " execution.max_io_queue_depth : 128  [file line 4, the stock value; reported]",
                 " properties.rdma_io_retry_count : 3  [file line 7; accepted, changes nothing]",
                 " sluice.verify : true  [environment; obeyed]",
                 " properties.io_batchsize : 128  [default; obeyed]",
                 " note: properties.rdma_io_retry_count is accepted and changes nothing here"):
        contains(rows, part)
    contains("\n".join(section(text, "ENVIRONMENT:")), " SLUICE_VERIFY : 1")


def test_gdscheck_tells_what_is_wrong_with_a_configuration_before_its_keys():
    with scratch() as folder:
        variables = with_file(folder, {"execution": {"max_io_treads": 7}})
        short = section(report("-p", **variables).stdout, "SLUICE CONFIGURATION:")
        contains(short[1], " note: ")
        contains(short[1], "max_io_treads is no key that is known")
        equal(len(short), 3)
        whole = section(report("-p", "-v", **variables).stdout, "SLUICE CONFIGURATION:")
        equal(whole[:2], short[:2])
        equal(len(whole) > 100, True)


def test_the_soft_gpu_is_a_platform_for_who_says_so_only():
    failed = run(GDSCHECK, "-p", env=environment(SLUICE_SOFTGPU="1"), status=1).stdout
    contains(failed.splitlines()[-1], " Platform verification failed: no GPU (")
    contains(failed, " is no GPU, IOMMU State: ")
    contains(report("-p").stdout.splitlines()[-1], " Platform verification succeeded")


def test_gdscheck_tells_of_memory_that_cpu_and_gpu_share():
    row = " note: GPU index 0 shares memory with the CPU by hardware, as the driver tells: sluice.coherent is "
    contains(report("-p", SLUICE_SOFTGPU_COHERENT="1").stdout, row + "on, where a trial succeeds\n")
    contains(report("-p", SLUICE_SOFTGPU_COHERENT="1", SLUICE_COHERENT="off").stdout, row + "off\n")
    equal(row in report("-p").stdout, False)
    equal(json.loads(report("-p", "--json", SLUICE_SOFTGPU_COHERENT="1").stdout)["gpus"][0]["coherent"], True)


def test_gdscheck_tells_programs_the_same():
    with scratch() as folder:
        variables = with_file(folder, {"properties": {"io_batchsize": 9}})
        answer = json.loads(report("-p", "--json", **variables).stdout)
    equal((answer["driver"], answer["verification"]["succeeded"], answer["p2pdma"]["used"]), ("soft", True, False))
    keys = {key["key"]: key for key in answer["configuration"]}
    equal((keys["properties.io_batchsize"]["value"], keys["properties.io_batchsize"]["origin"]), (9, "file"))
    equal(answer["gpus"][0]["supports_gds"], False)
    failed = run(GDSCHECK, "-p", "--json", env=environment(SLUICE_SOFTGPU="1"), status=1)
    contains(json.loads(failed.stdout)["verification"]["why_not"], "no GPU")


def test_gdscheck_shows_routing_where_it_is_configured():
    with scratch() as folder:
        text = report("-p", **with_file(folder, {
            "properties": {"rdma_dynamic_routing": True},
            "fs": {"nfs": {"mount_table": {"/": {"rdma_dev_addr_list": ["10.0.0.1", "10.0.0.2"]}}},
                   "lustre": {"rdma_dev_addr_list": ["192.0.2.1"]}}})).stdout
    contains(text, " note: fs.lustre.rdma_dev_addr_list: 192.0.2.1 cannot be used: no interface of this machine has it\n")
    # Each once, where the incumbent's documents have it.
    contains(text, " properties.rdma_dynamic_routing : 1\n"
                   " properties.rdma_dynamic_routing_order : GPU_MEM_NVLINKS GPU_MEM SYS_MEM P2P\n")
    equal(text.count("rdma_dynamic_routing_order"), 1)
    table = (r"^ fs\.weka\.rdma_write_support: false\n fs\.nfs\.mount_table :\n"
             r" / dev_id \d+ : 10\.0\.0\.1 10\.0\.0\.2\n fs\.gpfs\.gds_write_support:")
    equal(bool(re.search(table, text, re.MULTILINE)), True)
    equal(text.count("mount_table :\n"), 1)


def test_gdscheck_shows_no_routing_where_none_is_configured():
    text = report("-p").stdout
    equal(("rdma_dynamic_routing_order" in text, "mount_table" in text), (False, False))


def test_gdscheck_exports_the_topology_and_tells_pairs():
    contains(report("-t").stdout, "GPU AND DEVICE PAIRS:")
    with scratch() as folder:
        for method in ("cufile", "sysfs"):
            report("-e", method, "-o", folder / method)
            contains((folder / method).read_text(encoding="utf-8"), '"devices"')
        run(GDSCHECK, "-e", "magic", status=2)


def test_gdscheck_leaves_the_old_topology_where_a_new_one_has_no_room():
    with scratch() as folder:
        answer = behind_a_mount(f"-t tmpfs -o size=64k none {folder}",
                                f"printf 'a good one' >{folder}/tree.json; cat /dev/zero >{folder}/rest 2>&-; "
                                f"{GDSCHECK} -e sysfs -o {folder}/tree.json; echo \" $?\"; cat {folder}/tree.json; echo; ls -A {folder}",
                                env=environment(SLUICE_SOFTGPU="1"))
        equal(answer.stderr, f"gdscheck: The topology cannot be written to {folder}/tree.json: No space left on device.\n"
                             "          Name a file that can be written: -o FILE.\n")
        equal(answer.stdout, " 1\na good one\nrest\ntree.json\n")


READ_LAT = """#!/bin/sh
echo "$*" >> "{folder}/calls"
case "$*" in
  # The first client says why not; others are cut before they have said anything.
  *broken0*localhost) mkdir "{folder}/told" 2>/dev/null || exec sleep 60; echo "Couldn't get device attributes"; exit 1;;
  *broken0*) exec sleep 60;;
  *localhost) ;;
  *) exec sleep 60;;
esac
# The first client comes before its server listens.
if mkdir "{folder}/early" 2>/dev/null; then echo "Couldn't connect to localhost:18515"; exit 1; fi
echo "---------------------------------------------------------------------------------------"
echo " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
echo " 2       1000          1.93           7.40         2.05               2.08           0.11"
"""


def test_gdscheck_measures_latencies_by_the_tool_for_it():
    with scratch() as folder:
        without = run(GDSCHECK, "-e", "latency", status=1, env=environment(SLUICE_SOFTGPU="1"))
        contains(without.stderr, "no GPU")
        contains(without.stderr, "sluice doctor gpu")
        variables = {"SLUICE_SOFTGPU": "1", "PATH": str(folder)}
        words = (GDSCHECK, "--soft", "-e", "latency", "-o", folder / "times", "--card", "mlx5_0")
        gone = run(*words, env=environment(**variables), status=1)
        contains(gone.stderr, "ib_read_lat cannot be run")
        contains(gone.stderr, "perftest")
        tool = folder / "ib_read_lat"
        tool.write_text(READ_LAT.format(folder=folder), encoding="utf-8")
        tool.chmod(0o755)
        variables["PATH"] += ":/usr/bin:/bin"
        text = run(*words, env=environment(**variables)).stdout
        contains(text, " GPU 0 mlx5_0 : typical 2.05 us, average 2.08 us, least 1.93 us\n")
        pair = json.loads((folder / "times").read_text(encoding="utf-8"))["pairs"][0]
        equal(pair, {"gpu": 0, "card": "mlx5_0", "microseconds": {"typical": 2.05, "average": 2.08, "least": 1.93}})
        contains((folder / "calls").read_text(encoding="utf-8"), "-d mlx5_0 -n 1000 -p ")
        # Levels: nothing but where the file is, and all that the tool says.
        equal(run(*words, "-l", "0", env=environment(**variables)).stdout, f" Latencies written to {folder}/times\n")
        contains(run(*words, "-l", "2", env=environment(**variables)).stdout, "t_typical[usec]")
        # Whether the file can be written is found out before anything is measured.
        calls = (folder / "calls").read_text(encoding="utf-8")
        nowhere = run(GDSCHECK, "--soft", "-e", "latency", "-o", folder / "no/times", "--card", "mlx5_0",
                      env=environment(**variables), status=1)
        equal(nowhere.stderr, f"gdscheck: The latencies cannot be written to {folder}/no/times: No such file or directory.\n"
                              "          Name a file that can be written: -o FILE.\n")
        equal((folder / "calls").read_text(encoding="utf-8"), calls)
        full = run(GDSCHECK, "--soft", "-e", "latency", "-o", "/dev/full", "--card", "mlx5_0",
                   env=environment(**variables), status=1)
        contains(full.stderr, "The latencies cannot be written to /dev/full: No space left on device.")
        # One that fails ends it, or is told of.
        words = (*words, "--card", "broken0", "-d", "2")
        failed = run(*words, env=environment(**variables), status=1)
        contains(failed.stderr, "GPU 0 and broken0 cannot be measured: Couldn't get device attributes")
        contains(run(*words, "-i", env=environment(**variables)).stdout, " GPU 0 broken0 : not measured: ")
        for wrong in (("-d", "0"), ("-d", "3601"), ("-l", "3")):
            run(GDSCHECK, "-e", "latency", *wrong, status=2)


def test_a_broken_configuration_is_one_line_on_stderr_and_opens():
    with scratch() as folder:
        for content, expected in (("{\n\"profile\": {\n\"cufile_stats\": }}", ":3: column 17: in profile.cufile_stats: "),
                                  ({"profile": {"cufile_stats": 4}}, ":3: profile.cufile_stats takes "),
                                  ("", ":1: "), ("x" * (1 << 21), "it is larger than 1 MiB")):
            variables = with_file(folder, content)
            answer = report("-p", **variables)
            equal(answer.stderr.count("\n"), 1)
            contains(answer.stderr, f"sluice: {variables['CUFILE_ENV_PATH_JSON']}")
            contains(answer.stderr, expected)
            contains(answer.stdout, " profile.cufile_stats : 0\n")
            contains(answer.stdout, " Platform verification succeeded")
        for path, expected in ((folder, "it is a directory"), (folder / "gone", "there is no such file")):
            answer = report("-p", CUFILE_ENV_PATH_JSON=str(path))
            equal(answer.stderr.count("\n"), 1)
            contains(answer.stderr, expected)


def test_a_good_configuration_leaves_stderr_alone():
    with scratch() as folder:
        equal(report("-p", **with_file(folder, {"logging": {"level": "INFO"}})).stderr, "")


def test_a_tool_tells_of_keys_that_are_not_known():
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(b"x" * 8192)
        variables = with_file(folder, {"logging": {"levle": "INFO"}})
        for command in ((GDSCHECK, "-f", file), (BUILD / "bin/sluice", "explain", file),
                        (BUILD / "bin/gdscp", file, folder / "copy"), (BUILD / "bin/gdsio_verify", "-f", file),
                        (BUILD / "bin/gdsio", "-f", file, "-d", "0", "-w", "1", "-s", "8K", "-i", "4K", "-x", "0", "-I", "0")):
            told = run(*command, env=environment(SLUICE_SOFTGPU="1", **variables)).stderr
            equal((command[0], told.count("logging.levle is no key that is known")), (command[0], 1))
        variables = with_file(folder, {"logging": {f"key{i}": 1 for i in range(9)}})
        equal(report("-f", file, **variables).stderr.count("\n"), 4)


def test_gdscheck_registers_a_file_or_says_why_not():
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(b"x" * 8192)
        contains(report("-f", file).stdout, "GDS register success\npath posix, because ")
        run(GDSCHECK, "-f", folder / "gone", status=1)
        refused = run(GDSCHECK, "-f", "/proc/self/status", status=1, env=environment(SLUICE_SOFTGPU="1"))
        contains(refused.stderr, "GDS register failed")


def test_a_log_that_cannot_be_opened_is_told_once_on_stderr():
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(b"x" * 8192)
        answer = report("-f", file, CUFILE_LOGFILE_PATH=str(folder / "no/such/folder/cufile.log"))
        equal(answer.stderr.count("\n"), 1)
        contains(answer.stderr, "sluice: the log: cannot open ")


def test_the_log_tells_of_files_at_debug_and_of_every_transfer_at_trace():
    with scratch() as folder:
        (folder / "data").write_bytes(b"x" * 8192)
        for level in ("DEBUG", "TRACE"):
            log = folder / level
            run(BUILD / "bin/sluice", "doctor", folder / "data", status=None,
                env=environment(SLUICE_SOFTGPU="1", CUFILE_LOGGING_LEVEL=level, CUFILE_LOGFILE_PATH=str(log)))
            text = log.read_text(encoding="utf-8")
            for part in (" DEBUG  process descriptor ", "registered: ", "deregistered"):
                contains(text, part)
            equal("TRACE  transfer read of 8192 bytes at 0 of descriptor" in text, level == "TRACE")


def test_a_denylist_keeps_files_away():
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(b"x")
        mount = run("stat", "-c", "%m", folder).stdout.strip()
        variables = with_file(folder, {"denylist": {"mounts": [mount]}})
        refused = run(GDSCHECK, "-f", file, status=1, env=environment(SLUICE_SOFTGPU="1", **variables))
        contains(refused.stderr, f"denylist.mounts lists {mount}")
        contains(report("-f", file).stdout, "GDS register success")


def test_gdscheck_does_not_wait_for_a_configuration_that_is_a_pipe():
    with scratch() as folder:
        os.mkfifo(folder / "pipe")
        answer = report("-p", CUFILE_ENV_PATH_JSON=str(folder / "pipe"))
        contains(answer.stderr, f"sluice: {folder}/pipe: it is no regular file")


def test_gdscheck_has_json_of_the_platform_alone_and_says_so():
    with scratch() as folder:
        file, tree = folder / "data", folder / "tree"
        file.write_bytes(b"x" * 8192)
        for words in (("-V",), ("-t",), ("-e", "sysfs", "-o", tree), ("-f", file)):
            both = report("-p", "--json", *words)
            equal(both.stderr, f"gdscheck: note: --json is of -p alone: text of {words[0]} follows it\n")
            _, end = json.JSONDecoder().raw_decode(both.stdout)
            text = report(*words)
            equal((words, text.stderr), (words, ""))
            equal((words, both.stdout[end:].strip()), (words, text.stdout.strip()))
            alone = report("--json", *words)
            equal(alone.stderr, "gdscheck: note: left out: --json (of -p; nothing else has JSON)\n")
            equal((words, alone.stdout), (words, text.stdout))
    contains(report("-v", "--json").stderr, "note: left out: --json")
    whole = report("-p", "-v", "--json")
    json.loads(whole.stdout)
    equal(whole.stderr, "")


def test_gdscheck_goes_on_beside_words_that_do_nothing_and_tells_of_them():
    plain, pairs = report("-p").stdout, report("-t").stdout
    for word in (("-o", "x"), ("-l", "1"), ("-d", "5"), ("-i",), ("--card", "mlx5_0")):
        answer = report("-p", *word)
        equal((word, answer.stdout), (word, plain))
        equal(answer.stderr, f"gdscheck: note: left out: {word[0]} (of -e)\n")
        equal((word, report("-t", *word).stdout), (word, pairs))
        # And without a word that asks for something, nothing can be done.
        alone = run(GDSCHECK, *word, status=2)
        equal((word, alone.stdout), (word, ""))
        contains(alone.stderr, f"gdscheck: note: left out: {word[0]} (of -e)\ngdscheck: Nothing is asked for.")
    with scratch() as folder:
        several = report("-e", "sysfs", "-o", folder / "tree", "-d", "30", "-i")
        equal(several.stderr, "gdscheck: note: left out: -d, -i (of -e latency)\n")
    contains(run(GDSCHECK, "--soft", status=2).stderr, "Nothing is asked for.")
    contains(json.loads(run(GDSCHECK, "--json", status=2).stdout)["error"], "Nothing is asked for.")


def test_gdscheck_names_a_configuration_that_the_driver_does_not_open_with():
    with scratch() as folder:
        variables = with_file(folder, {"properties": {"allow_compat_mode": False}})
        text = run(GDSCHECK, "-p", env=environment(SLUICE_SOFTGPU="1", **variables), status=1).stdout
        contains(text, "properties.allow_compat_mode is off")


def test_gdscheck_shows_no_list_of_links_that_does_not_hold():
    answer = report("-p", "-v", SLUICE_LINKS="abc").stdout
    contains(answer, ' sluice.links : "auto"  [default; obeyed]')
    contains(answer, ' note: SLUICE_LINKS takes auto, own, lend or ordinals of GPUs, 0 to 63, as 0,2, not "abc"; it is ignored')
    for beyond in ("64", "99999999999999999999"):
        contains(report("-p", "-v", SLUICE_LINKS=beyond).stdout, ' sluice.links : "auto"  [default; obeyed]')


def test_gdscheck_help_and_versions():
    contains(run(GDSCHECK, "--version").stdout, "gdscheck (Sluice ")
    contains(run(GDSCHECK, "-h").stdout, "Examples:")
    contains(report("-v").stdout, " libcufile version: ")
    contains(report("-V").stdout, " / : ")
    equal(bool(re.search(r"^ / : .* dev_id \d+$", report("-V").stdout, re.MULTILINE)), True)
    run(GDSCHECK, "--no-such-option", status=2)
    run(GDSCHECK, status=2)


if __name__ == "__main__":
    main(globals())

# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` lays out: a project builds with it, it can be moved, and it shadows no real driver."""
import json
import os
import re
import shutil
import sys

from support import BUILD, SOURCE, contains, environment, equal, everything_in, main, run, scratch, skip_when_sanitized


def install(folder):
    prefix = folder / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def library_folder(prefix):
    (library,) = prefix.rglob("libcufile.so.0")
    return library.parent


def test_installed_package_builds_and_runs():
    skip_when_sanitized()
    with scratch() as folder:
        # Moved after it was installed: nothing of it may remember where that was.
        prefix = install(folder).rename(folder / "moved")
        example = folder / "example"
        shutil.copytree(SOURCE / "examples/installed-package", example)
        (folder / "file").write_bytes(bytes(range(256)) * 5000)

        run("cmake", "-S", example, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", timeout=120)
        run("cmake", "--build", folder / "build", timeout=120)
        shared = run(folder / "build/reader", folder / "file").stdout
        contains(shared, "1280000 bytes, checksum")
        contains(shared, "by posix")
        equal(run(folder / "build/reader_static", folder / "file").stdout, shared)

        package = environment(PKG_CONFIG_PATH=str(library_folder(prefix) / "pkgconfig"))
        run("make", "-C", example, env=package, timeout=120)
        equal(run(example / "reader", folder / "file").stdout, shared)
        for program in (folder / "build/reader", example / "reader"):
            needed = run("readelf", "-d", program).stdout
            contains(needed, "[libcufile.so.0]")


def test_installation_is_stripped_and_small():
    skip_when_sanitized()
    with scratch() as folder:
        prefix = install(folder)
        size = sum(path.stat().st_size for path in prefix.rglob("*") if path.is_file() and not path.is_symlink())
        equal((size, size <= 12 * 1024 * 1024), (size, True))
        for path in prefix.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
                equal((path.name, ".debug_info" in run("readelf", "-SW", path).stdout), (path.name, False))


def test_uninstalling_leaves_what_others_have_put_there():
    with scratch() as folder:
        # As `cmake --install`, but its list of files is this test's own: other tests install from this build, too.
        script = (BUILD / "cmake_install.cmake").read_text(encoding="utf-8").replace(f"{BUILD}/install_prefix", f"{folder}/install_prefix")
        (folder / "install.cmake").write_text(script.replace(f"{BUILD}/${{CMAKE_INSTALL_MANIFEST}}", f"{folder}/${{CMAKE_INSTALL_MANIFEST}}"),
                                              encoding="utf-8")
        prefix = folder / "prefix"
        run("cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-P", folder / "install.cmake")
        (prefix / "bin/.of-others").write_text("")
        (prefix / "bin/gdsio").unlink()
        uninstall = ("cmake", "-D", f"manifests={folder}", "-P", SOURCE / "cmake/Uninstall.cmake")
        said = run(*uninstall)
        equal(said.stderr, "")
        contains(said.stdout, "files were taken away")
        equal(everything_in(prefix), ["bin", "bin/.of-others"])
        contains(run(*uninstall, status=1).stderr, "Nothing was installed")
        contains(run("ninja", "-C", BUILD, "-t", "query", "uninstall").stdout, "uninstall")


def test_links_of_the_installed_pages_lead_somewhere():
    sys.path.insert(0, str(SOURCE / "tests/style"))
    import links  # noqa: E402  the folder is known only now
    with scratch() as folder:
        prefix = install(folder).resolve()
        pages = sorted(prefix.rglob("*.md"))
        equal(len(pages) > 40, True)
        equal([(page.name, dead) for page in pages
               for dead in links.dead_links(prefix, page.relative_to(prefix), page.read_text(encoding="utf-8"))], [])
        (readme,) = prefix.glob("share/doc/*/README.md")
        contains(readme.read_text(encoding="utf-8"), "](docs/guide/install.md)")


def test_pkg_config_tells_the_version_of_the_interface():
    with scratch() as folder:
        prefix = install(folder)
        (package,) = prefix.rglob("cufile.pc")
        env = environment(PKG_CONFIG_PATH=str(package.parent))
        answer = json.loads(run(prefix / "bin/sluice", "version", "--json").stdout)
        api = answer["cufile_api"]
        equal(run("pkg-config", "--modversion", "cufile", env=env).stdout.strip(), f"{api // 1000}.{api % 1000 // 10}")
        equal(run("pkg-config", "--variable=sluice_version", "cufile", env=env).stdout.strip(), answer["sluice"])


def test_installed_package_tells_its_version():
    with scratch() as folder:
        prefix = install(folder)
        project = folder / "project"
        project.mkdir()
        version = re.search(r"project\(Sluice VERSION (\d+)\.(\d+)", (SOURCE / "CMakeLists.txt").read_text())
        major, minor = int(version[1]), int(version[2])
        for asked, found in ((f"{major}.{minor}", True), (f"{major}.{minor + 1}", False), (f"{major + 1}.0", False)):
            (project / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(Asking LANGUAGES C)\n"
                f"find_package(Sluice {asked} QUIET)\nmessage(STATUS \"found=${{Sluice_FOUND}}, \"\n"
                "\"considered=${Sluice_CONSIDERED_VERSIONS}\")\n")
            told = run("cmake", "-S", project, "-B", folder / f"build-{asked}", f"-DCMAKE_PREFIX_PATH={prefix}", timeout=120)
            contains(told.stdout, f"found={int(found)}, considered={major}.{minor}.")


def test_project_that_takes_in_the_tree_gets_its_targets_and_nothing_else():
    skip_when_sanitized()
    with scratch() as folder:
        project = folder / "project"
        project.mkdir()
        (project / "reader.c").write_text("#include <cufile.h>\nint main(void) { return cuFileUseCount() > 0; }\n")
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(Host LANGUAGES C CXX)\ninclude(CTest)\n"
            f"add_subdirectory(\"{SOURCE}\" sluice)\nadd_executable(reader reader.c)\n"
            "target_compile_definitions(reader PRIVATE CUFILE_NO_CUDA_H)\n"
            "target_link_libraries(reader PRIVATE Sluice::cufile)\ninstall(TARGETS reader)\n")
        run("cmake", "-S", project, "-B", folder / "build", "-G", "Ninja", timeout=120)
        targets = run("ninja", "-C", folder / "build", "-t", "targets", "all").stdout
        contains(targets, "sluice/lib/libcufile.so.0: ")
        for absent in ("unit_tests", "cufile_bench", "sample_01_first_read"):
            if re.search(rf"^\S*{absent}\b", targets, re.MULTILINE):
                raise AssertionError(f"{absent} is built for a project that wants the library")
        equal(run("ctest", "--test-dir", folder / "build", "-N").stdout.strip().splitlines()[-1], "Total Tests: 0")
        contains(run("ninja", "-C", folder / "build", "-t", "query", "reader").stdout, "sluice/lib/libcufile.so")
        if "/sluice/" in (folder / "build/cmake_install.cmake").read_text().split("Include the install script")[0]:
            raise AssertionError("the tree brings install rules along")


def test_installed_samples_build_and_run():
    skip_when_sanitized()
    with scratch() as folder:
        prefix = install(folder)
        samples = folder / "samples"
        shutil.copytree(prefix / "share/sluice/samples", samples)
        package = environment(PKG_CONFIG_PATH=str(library_folder(prefix) / "pkgconfig"), CUDA="soft")
        run("make", "-C", samples, "-j2", env=package, timeout=240)
        equal(len([path for path in samples.iterdir() if os.access(path, os.X_OK) and path.is_file()]),
              len(list(samples.glob("[0-9]*.c"))))
        run("make", "-C", samples, "run", env=package, timeout=240)
        run("make", "-C", samples, "clean", env=package)
        equal([path for path in samples.iterdir() if path.suffix == ""], [samples / "Makefile"])


def test_installed_tool_uses_what_is_installed_with_it():
    skip_when_sanitized()
    with scratch() as folder:
        prefix = install(folder)
        tool = prefix / "bin/sluice"
        library = str((library_folder(prefix) / "libcufile.so.0").resolve())
        answer = json.loads(run(tool, "version", "--json", env=environment(SLUICE_SOFTGPU="1")).stdout)
        equal(answer["library"], library)
        equal(answer["driver"], "soft")
        contains(answer["driver_path"], str(prefix.resolve()))
        demo = run(tool, "demo", "--dir", folder, "--size", "2M", "--json", env=environment(SLUICE_SOFTGPU="1")).stdout
        equal(json.loads(demo)["verified"], True)
        result = run(tool, "run", "--", "env")
        contains(result.stderr, f"mapped {library}")
        if not os.path.exists("/etc/cufile.json"):
            contains(result.stdout, f"CUFILE_ENV_PATH_JSON={prefix.resolve()}/share/sluice/cufile.json")


def test_installation_has_every_part_and_shadows_no_driver():
    with scratch() as folder:
        prefix = install(folder)
        lib = library_folder(prefix)
        for part in ("include/cufile.h", "include/cudafile.h", "include/sluice.h", "bin/sluice", "share/sluice/cufile.json"):
            equal((prefix / part).is_file(), True)
        for part in ("libcufile.so", "libcufile_static.a", "pkgconfig/cufile.pc", "cmake/Sluice/SluiceConfig.cmake",
                     "cmake/Sluice/SluiceConfigVersion.cmake"):
            equal((lib / part).is_file(), True)
        equal((lib / "libcufile.so").resolve(), (lib / "libcufile.so.0").resolve())
        drivers = [path.parent for path in prefix.rglob("libcuda.so*")]
        equal(drivers, [lib / "sluice/softgpu"])
        equal([path.parent for path in prefix.rglob("libgdrapi.so*")], drivers)
        for text in list(prefix.rglob("*.cmake")) + list(prefix.rglob("*.pc")):
            if re.search(re.escape(str(folder)) + "|" + re.escape(str(SOURCE)), text.read_text()):
                raise AssertionError(f"{text} names a folder of this machine")


if __name__ == "__main__":
    main(globals())

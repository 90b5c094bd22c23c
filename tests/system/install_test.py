"""What `cmake --install` lays out: a project builds with it, it can be moved, and it shadows no real driver."""
import json
import os
import re
import shutil

from support import BUILD, SOURCE, contains, environment, equal, main, run, scratch, skip_when_sanitized


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

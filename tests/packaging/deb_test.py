# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: what lies where, what lintian says, and a life in a small system, from installing to purging."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys

import package
from chroot import system
from support import BUILD, FOREIGN, CLIENT, SOURCE, contains, equal, everything_in, main, run, scratch, skip, skip_when_sanitized

PACKAGES = BUILD / "packages/dist"
NAMES = ["libcufile-sluice", "libcufile-sluice-dev", "sluice-csi", "sluice-softgpu", "sluice-tools"]


def packages():
    """name → file of the packages that users install."""
    found = {path.name.split("_")[0]: path for path in PACKAGES.glob("*.deb") if "-dbgsym" not in path.name}
    if not found:
        skip("the packages were not built (test packaging.packages_are_built)")
    equal(sorted(found), NAMES)
    return found


def version_of(path):
    """The version in a package's name, without Debian's own part."""
    return path.name.split("_")[1].rsplit("-", 1)[0]


def listing(path):
    """The files of a package."""
    lines = run("dpkg-deb", "-c", path).stdout.splitlines()
    return [line.split(None, 5)[5].split(" -> ")[0].removeprefix(".") for line in lines if not line.startswith("d")]


def triplet():
    return run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").stdout.strip()


# Where debian/rules puts what an installation by itself has elsewhere.
PLACES = [(r"lib/(libcufile.*)", r"usr/lib/T/sluice/\1"), (r"lib/(sluice/.*|cmake/.*|pkgconfig/.*)", r"usr/lib/T/\1"),
          (r"include/(.*)", r"usr/include/sluice/\1"), (r"share/doc/Sluice/(.*)", r"usr/share/doc/sluice-tools/\1"), (r"(.*)", r"usr/\1")]
BY_RULES = {"usr/share/sluice/LICENSE", "usr/share/sluice/NOTICES"}  # which stand in each package's own folder


def test_every_file_that_is_installed_is_in_one_package():
    lists = {path.name: [line.split()[0].replace("*", "[^/]*") for line in path.read_text(encoding="utf-8").splitlines()]
             for path in (SOURCE / "packaging/debian").glob("*.install")}
    with scratch() as folder:
        prefix = folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        for path in sorted(path for path in prefix.rglob("*") if not path.is_dir()):
            file = path.relative_to(prefix).as_posix()
            pattern, place = next(pair for pair in PLACES if re.fullmatch(pair[0], file))
            there = re.sub(f"^{pattern}$", place, file)
            owners = [name for name, patterns in lists.items() if any(re.match(f"{each}(/|$)", there) for each in patterns)]
            equal((there, len(owners)), (there, 0 if there in BY_RULES else 1))


def test_packages_are_built():
    skip_when_sanitized()
    for program in ("dpkg-buildpackage", "dh"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    shutil.rmtree(PACKAGES, ignore_errors=True)
    run("python3", "-B", SOURCE / "packaging/package.py", "--out", PACKAGES, "--work", BUILD / "packages/work", timeout=3400,
        env=dict(os.environ))
    equal(sorted(packages()), NAMES)


def test_packages_satisfy_lintian():
    packages()
    if shutil.which("lintian") is None:
        skip("lintian is not installed")
    (changes,) = PACKAGES.glob("*.changes")
    answer = run("lintian", "--no-cfg", "--display-info", "--fail-on", "error,warning,info", "--allow-root", changes, status=None, timeout=300)
    equal((answer.stdout, answer.returncode), ("", 0))
    # Each exception has a reason above it.
    for path in (SOURCE / "packaging/debian").glob("*.lintian-overrides"):
        equal((path.name, path.read_text(encoding="utf-8").startswith("# ")), (path.name, True))


def test_packages_shadow_nothing_and_leave_out_nothing():
    owned = {}
    for name, path in packages().items():
        for file in listing(path):
            equal((file, owned.get(file, name)), (file, name))
            owned[file] = name
    private = f"/usr/lib/{triplet()}/sluice"
    # No loader, compiler or pkg-config of another cuFile or driver looks where ours lie.
    for file in owned:
        if re.search(r"/lib(cufile|cuda|gdrapi)[^/]*\.(so|a)", file):
            equal((file, file.startswith(f"{private}/")), (file, True))
        if file.endswith(".h") and "/include/" in file:
            equal((file, file.startswith("/usr/include/sluice/")), (file, True))
        equal((file, file.startswith("/etc/")), (file, False))
    equal(owned[f"{private}/libcufile.so.0"], "libcufile-sluice")
    equal(owned[f"{private}/softgpu/libcuda.so.1"], "sluice-softgpu")
    equal(owned["/usr/bin/sluice"], "sluice-tools")
    equal(owned["/usr/bin/sluice-csi"], "sluice-csi")
    equal(owned["/usr/share/sluice/samples/Makefile"], "libcufile-sluice-dev")
    for program in (file for file in owned if file.startswith("/usr/bin/")):
        for page in (f"/usr/share/man/man1/{program[9:]}.1.gz", f"/usr/share/bash-completion/completions/{program[9:]}",
                     f"/usr/share/zsh/vendor-completions/_{program[9:]}"):
            equal((page, owned.get(page)), (page, owned[program]))
    for name in NAMES:
        equal(owned[f"/usr/share/doc/{name}/copyright"], name)
        # The soft GPU holds nothing of others.
        equal((name, bool({f"/usr/share/doc/{name}/NOTICES", f"/usr/share/doc/{name}/NOTICES.gz"} & set(owned))),
              (name, name != "sluice-softgpu"))
    # Debug information lies in packages of its own, one for each that has machine code.
    symbols = {path.name.split("_")[0] for path in PACKAGES.iterdir() if "-dbgsym" in path.name}
    equal(symbols, {f"{name}-dbgsym" for name in NAMES if name != "libcufile-sluice-dev"})


def dead_links(root):
    """Links of pages below that folder that lead nowhere, and how many pages there are."""
    sys.path.insert(0, str(SOURCE / "tests/style"))
    import links  # noqa: E402  the folder is known only now
    root = root.resolve()
    pages = sorted(root.rglob("*.md"))
    return [(page.name, dead) for page in pages
            for dead in links.dead_links(root, page.relative_to(root), page.read_text(encoding="utf-8"))], len(pages)


def test_packages_have_pages_whose_links_lead_somewhere():
    with scratch() as folder:
        for path in packages().values():
            run("dpkg-deb", "-x", path, folder)
        dead, pages = dead_links(folder)
        equal((dead, pages > 40), ([], True))


def test_packages_build_programs_by_cmake():
    with scratch() as folder:
        for name in ("libcufile-sluice", "libcufile-sluice-dev"):
            run("dpkg-deb", "-x", packages()[name], folder / "root")
        shutil.copytree(SOURCE / "examples/installed-package", folder / "example")
        run("cmake", "-S", folder / "example", "-B", folder / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={folder}/root/usr", timeout=120)
        run("cmake", "--build", folder / "build", timeout=120)
        (folder / "file").write_bytes(bytes(5000))
        for program in ("reader", "reader_static"):
            contains(run(folder / "build" / program, folder / "file").stdout, "5000 bytes, checksum")


def sums(folder):
    """name → sum of every package there, those with debug symbols, too."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*deb"))}


def turkish(folder):
    """Variables of a locale that has an order and capitals of its own; of none where it cannot be made."""
    made = run("localedef", "-i", "tr_TR", "-f", "UTF-8", folder / "tr_TR.UTF-8", status=None) if shutil.which("localedef") else None
    return {"LOCPATH": str(folder), "LC_ALL": "tr_TR.UTF-8"} if made and made.returncode == 0 else {"LC_ALL": "C"}


def built_by_another(folder, *options):
    """name → sum of packages built in another folder, later, with another locale, time zone, umask, home and number of jobs, without a
    cache of compilations; not by package.py, which would set these right; and by an ordinary user, where this one is root."""
    tree = folder / "below/elsewhere"
    package.lay_out(tree)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "USER": "somebody", "TZ": "Pacific/Kiritimati", "LANGUAGE": "tr",
           "CCACHE_DISABLE": "1", "DEB_BUILD_OPTIONS": f"parallel={os.cpu_count() + 1}", **turkish(folder)}
    command = ["sh", "-c", 'umask 077 && exec dpkg-buildpackage --build=binary --no-sign "$@"', "sh", *options]
    if os.geteuid() == 0 and shutil.which("setpriv"):
        run("chown", "-R", "65534:65534", folder)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    run(*command, cwd=tree, env=env, timeout=7000)
    return sums(tree.parent)


def test_how_old_the_files_of_a_checkout_are_does_not_come_into_packages():
    with scratch() as folder:
        debian = shutil.copytree(package.DEBIAN, folder / "debian")
        for path in debian.iterdir():
            os.utime(path, (1e9, 1e9))
        package.DEBIAN = debian
        package.lay_out(folder / "tree")
        laid_out = [path for path in (folder / "tree").rglob("*") if path.is_file()]
        equal([path for path in laid_out if path.stat().st_mtime < folder.stat().st_mtime - 60], [])
        equal(len(laid_out) > 100, True)


def test_packages_have_the_same_bytes_when_another_user_builds_them_elsewhere():
    skip_when_sanitized()
    packages()
    here = sums(PACKAGES)
    with scratch(pathlib.Path("/tmp")) as folder:
        there = built_by_another(folder)
    equal(sorted(there), sorted(here))
    equal([name for name in here if here[name] != there[name]], [])
    equal(len(here) > len(NAMES), True)


def older(path, folder):
    """The same package under an older version."""
    tree = folder / path.stem
    run("dpkg-deb", "-R", path, tree)
    control = tree / "DEBIAN/control"
    text = control.read_text(encoding="utf-8")
    version = re.search(r"^Version: (.*)$", text, re.MULTILINE)[1]
    control.write_text(text.replace(version, "0.0.9-1"), encoding="utf-8")
    out = folder / f"{path.name.split('_')[0]}_0.0.9-1.deb"
    run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, out)
    return out


def test_packages_are_installed_used_upgraded_removed_and_purged():
    skip_when_sanitized()
    found = {name: path for name, path in packages().items() if name != "sluice-csi"}
    csi = packages()["sluice-csi"]
    library = f"/usr/lib/{triplet()}/sluice/libcufile.so.0"
    group = f"libcufile.so.0-{triplet()}"
    choices = f"/usr/lib/{triplet()}/sluice/ld.so"
    with system() as machine, scratch() as folder:
        before = set(everything_in(machine.root))
        new, old = machine.root / "new", machine.root / "old"
        for place in (new, old):
            place.mkdir()
        for path in (*found.values(), csi):
            shutil.copy(path, new)
            shutil.copy(older(path, folder), old)
        # A program and the library that it finds by itself, as NVIDIA's are found.
        shutil.copy(CLIENT, machine.root / "usr/local/bin/client")
        shutil.copy(FOREIGN, machine.root / "usr/local/lib/libcufile.so.0")
        machine.run("ldconfig")
        theirs = machine.says("client version")

        # Installed: what programs find is what they found before; `sluice run` gives one program ours.
        machine.run("apt-get install -y /old/*.deb")
        equal(machine.says("client version"), theirs)
        equal(machine.says("sluice run -- client version 2>/dev/null", user="nobody"), "1150")
        equal(machine.says("dpkg-query -Wf '${Version}' sluice-tools"), "0.0.9-1")
        about = json.loads(machine.says("SLUICE_SOFTGPU=1 sluice version --json", user="nobody"))
        equal((about["library"], about["driver"]), (library, "soft"))
        demo = machine.says("SLUICE_SOFTGPU=1 sluice demo --dir /tmp --size 2M --json", user="nobody")
        equal(json.loads(demo)["verified"], True)
        contains(machine.says("sluice run -- cat /proc/self/maps"), f"/usr/lib/{triplet()}/sluice/libsluice_witness.so")
        contains(machine.says("gdsio -f /tmp/f -s 1M -I 1 -x 0 -d 0 -w 1 -i 1M", user="nobody"), "WRITE")
        equal(machine.says("sluice-csi --version"), about["sluice"])

        # The samples, as their Makefile says.
        machine.run("cp -rL /usr/share/doc/libcufile-sluice-dev/examples /tmp/samples && make -C /tmp/samples CUDA=soft 01_first_read 10_which_way",
                    user="nobody")
        contains(machine.says("/tmp/samples/10_which_way", user="nobody"), "path:   posix")
        equal(machine.says("pkg-config --modversion cufile"), "1.15")

        # Chosen: every program finds ours, also in front of another's folder; and no longer when it is not.
        machine.run(f"update-alternatives --set {group} {choices}/sluice.conf && ldconfig")
        equal(machine.says("client version"), "1150")

        # Upgraded: the choice stays.
        machine.run("apt-get install -y /new/*.deb")
        equal(machine.says("dpkg-query -Wf '${Version}' libcufile-sluice"), f"{version_of(csi)}-1")
        equal(machine.says("client version"), "1150")
        equal(machine.says("SLUICE_SOFTGPU=1 sluice version | head -n 1"), f"Sluice     {about['sluice']}")

        # Removed while it was chosen: programs find what they found before.
        names = " ".join((*found, "sluice-csi"))
        machine.run(f"apt-get remove -y {names}")
        equal(machine.says("client version"), theirs)
        machine.run("sluice version", status=127)
        machine.run(f"dpkg --purge {names}")
        equal(machine.says(f"dpkg-query -W {names} 2>/dev/null || true"), "")
        left = [name for name in set(everything_in(machine.root)) - before
                if re.search(r"sluice|cufile|gds|alternatives", name) and not re.match(r"(new|old|tmp|usr/local|var/(cache|log))/", name)]
        equal(left, [])


if __name__ == "__main__":
    main(globals())

# SPDX-License-Identifier: Apache-2.0
"""What is wrong with what a configuration names, as the doctor, a record of the machine and gdscheck tell it."""
import socket

from support import BUILD, SLUICE, contains, environment, equal, main, run, scratch

GDSCHECK = BUILD / "bin/gdscheck"


def doctor(*words, status=0, **variables):
    return run(SLUICE, "doctor", "config", *words, env=environment(**variables), status=status).stdout


def test_doctor_tells_that_nothing_of_a_profile_is_taken():
    with scratch() as folder:
        profile = folder / "profile.json"
        for text, why in ((None, "there is no such file"), ("{}", "it is no profile: make one with"), ("hello", "it is no profile: make one with")):
            if text:
                profile.write_text(text, encoding="utf-8")
            told = doctor(status=1, SLUICE_PROFILE=str(profile))
            contains(told, f"degraded  nothing of the profile is taken: {profile}: {why}")
            contains(told, "Make one on this machine, by sluice profile -o FILE DIR, or unset what names it")
        tar = folder / "machine.tar"
        run(SLUICE, "doctor", "--record", tar, env=environment(SLUICE_PROFILE=str(profile)))
        contains(doctor("--root", tar, status=1), "nothing of the profile is taken: ")
        run(SLUICE, "profile", "--seconds", "0.01", "--size", "1M", "--limit", "10", "-o", profile, folder,
            env=environment(SLUICE_SOFTGPU="1"), status=None)
        equal("of the profile" in doctor(SLUICE_PROFILE=str(profile)), False)


def test_a_word_for_the_trace_that_is_no_socket_is_told():
    note = "profile.trace takes on, or the name of a socket that is there, not maybe: it counts as on"
    with scratch() as folder:
        told = doctor(status=1, SLUICE_TRACE="maybe")
        contains(told, "degraded  profile.trace is maybe, which is neither on nor a socket that is there")
        tar = folder / "machine.tar"
        run(SLUICE, "doctor", "--record", tar, env=environment(SLUICE_TRACE="maybe"))
        contains(doctor("--root", tar, status=1), "profile.trace is maybe")
        contains(run(GDSCHECK, "--soft", "-p", env=environment(SLUICE_SOFTGPU="1", SLUICE_TRACE="maybe")).stdout, note)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            name = f"sluice-test-{folder.name}"
            listener.bind(f"\0{name}")
            listener.listen()
            for word in ("on", name):
                equal("profile.trace is" in doctor(SLUICE_TRACE=word), False)
                answer = run(GDSCHECK, "--soft", "-p", env=environment(SLUICE_SOFTGPU="1", SLUICE_TRACE=word)).stdout
                equal("profile.trace takes" in answer, False)


if __name__ == "__main__":
    main(globals())

# SPDX-License-Identifier: Apache-2.0
"""A cufile_bench in another process, for as long as a comparison lasts."""

import json
import os
import select
import subprocess
import time


class Refused(Exception):
    """The client has answered that it cannot; or it answers no more."""


class Client:
    """One library on one file. Starts with the first command, and anew when it has died."""

    def __init__(self, program, library, target, environment=None, folder=None):
        self.program = program
        self.library = library
        self.arguments = target
        self.environment = environment_for(library, environment)
        self.folder = folder
        self.process = None
        self.pending = b""

    def command(self, text, seconds):
        """The answer to a command, which has to come within that time."""
        if self.process is None:
            self.process = subprocess.Popen([self.program, "--serve", *self.arguments], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, env=self.environment, cwd=self.folder)
            self.pending = b""
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
            answer = json.loads(self.line(time.monotonic() + seconds))
        except (OSError, ValueError) as failure:
            raise Refused(self.end(str(failure))) from failure
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def line(self, deadline):
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise OSError("no answer in time")
            more = os.read(descriptor, 65536)
            if not more:
                raise OSError("the client has ended")
            self.pending += more
        line, self.pending = self.pending.split(b"\n", 1)
        return line

    def end(self, reason):
        """Ends the process, and says what became of it."""
        self.process.kill()
        status = self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None
        return f"{reason} (status {status})"

    def close(self):
        if self.process is not None:
            try:
                self.process.stdin.write(b"quit\n")
                self.process.stdin.flush()
                self.process.wait(30)
            except (OSError, subprocess.TimeoutExpired):
                pass
            if self.process is not None:
                self.end("")

    def once(self, *arguments):
        """The answer of a process of its own."""
        done = subprocess.run([self.program, *self.arguments, *arguments], env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise Refused(done.stderr.strip() or f"status {done.returncode}")
        return json.loads(done.stdout) if done.stdout.strip() else {}


def environment_for(library, more=None):
    """LD_LIBRARY_PATH begins with the folder of the library, and goes on with what was there."""
    environment = dict(os.environ)
    rest = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = library + (":" + rest if rest else "")
    environment.update(more or {})
    return environment

"""Players at work: processes that play scripts against one library, started anew when one has ended."""

import os
import pathlib
import re
import select
import subprocess

LIVES = 150  # copies of the library that one process loads; each keeps some memory and some threads' places


ENDS = re.compile(r"signal \d+|hang|exit|cuda=")  # the last line of a process that ends after it


class Player:
    """Plays scripts against a library. A process plays many, unless `alone`: then each script has a process to itself."""

    def __init__(self, program, library, folder, environment, alone=False, seconds=5):
        self.command = [str(program), f"--library={library}", f"--folder={folder}", f"--seconds={seconds}"]
        self.command += ["--alone"] if alone else []
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=2000000", **environment}
        self.alone = alone
        self.seconds = seconds
        self.process = None
        self.lives = 0
        self.starts = 0

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "stderr.txt", "wb") as errors:
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors)
        self.lives = 0
        self.starts += 1

    def stop(self):
        if self.process is None:
            return
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def begin(self, mode, calls):
        """Hands the script to the process; answers() gets what it says."""
        text = "".join([f"script x {mode}\n", *(f"{call}\n" for call in calls), "end\n"]).encode()
        for _ in range(2):
            if self.process is None:
                self.start()
            try:
                self.process.stdin.write(text)
                self.process.stdin.flush()
                break
            except (BrokenPipeError, OSError):
                self.stop()
        self.lives += mode == "life"

    def answers(self):
        """The lines of answers; the last is "gone" where the process ended without a word."""
        data = b""
        patience = self.seconds + 20
        while not data.endswith(b"\nend\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], patience)
            some = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not some:
                self.process.kill()
                self.stop()
                return data.decode(errors="replace").splitlines()[1:] + ["gone" if ready else "hang"]
            data += some
        lines = data.decode(errors="replace").splitlines()[1:-1]
        if self.alone or self.lives >= LIVES or (lines and ENDS.search(lines[-1])):
            self.stop()
        return lines

    def play(self, mode, calls):
        self.begin(mode, calls)
        return self.answers()

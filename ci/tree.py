# SPDX-License-Identifier: Apache-2.0
"""What every script of ci/ needs: where things are, how a preset is built, how a wrong use ends."""

import collections
import contextlib
import ctypes
import fcntl
import functools
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
COMMAND = os.path.join(BUILD, "release", "cproute")
FINDINGS = os.path.join(ROOT, "findings")
CORPUS_CASES = os.path.join(ROOT, "corpus", "cases")
CORPUS_SEEDS = os.path.join(ROOT, "corpus", "seeds")

EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
NUMBERS_END = 10**9
ONE_WISH_SECONDS = 0.5
PROGRESS_EVERY_SECONDS = 5
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def path(*parts):
    return os.path.join(ROOT, *parts)


def relative(name):
    return os.path.relpath(name, ROOT)


def matching(folder, *pattern):
    """Paths below a folder, whatever its own name consists of; ** is any number of folders."""
    return glob.glob(os.path.join(glob.escape(folder), *pattern), recursive=True)


# By their endings, and C++ headers, which have none.
SOURCE = re.compile(r"[^.][^.]*(?<![~#])|[^.].*\.(c|cmake|cpp|cu|def|h|in|jsonl|md|options|patch|txt)", re.DOTALL)


def sources(folder):
    """Names of the files in a folder that are ours, and not an editor's locks and copies of them."""
    return sorted(name for name in os.listdir(folder) if SOURCE.fullmatch(name) and os.path.isfile(os.path.join(folder, name)))


class WrongUse(Exception):
    """Ends the script with exit code 2 and one line."""


class Failed(Exception):
    """Ends the script with exit code 1 and what failed."""


class BuildFailed(Failed):
    """The same, with the tail of the build's output."""


class Stop:
    """The wish to end, from Ctrl-C, a terminal that is closed or a supervisor, while somebody is in it; before and behind, they end the
    script as they do."""

    def __init__(self, then=None):
        """`then` is called whenever it is asked for."""
        self.asked = False
        self.again = False  # at once, then
        self.then = then
        self.before = []
        self.terminals = []

    def __enter__(self):
        self.terminals = [stream for stream in (1, 2) if os.isatty(stream)]
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
            numbers.append(signal.SIGHUP)
        self.before.append([(number, signal.signal(number, self.ask)) for number in numbers])
        return self

    def __exit__(self, *_):
        for number, handler in self.before.pop():
            signal.signal(number, handler)

    def ask(self, number=None, _=None):
        if number == signal.SIGHUP:
            forget(self.terminals)
        now = time.monotonic()
        if not self.asked:
            self.first = now
        # `timeout` and terminals send the same wish to a process and to its group.
        self.again = self.asked and now - self.first > ONE_WISH_SECONDS
        self.asked = True
        if self.then:
            self.then()


def forget(streams):
    """Whatever is written to them from here on goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)


def write_json(path, value):
    """The file is whole at any time."""
    with open(path + ".new", "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


HELD = {}


def alone(what):
    """Refuses to go on where another process does this in this tree: it writes to the same folders. Held until this process ends,
    however it does; children do not inherit it."""
    path = os.path.join(BUILD, "running", what)
    if path in HELD:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = open(path, "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with file:
            file.seek(0)
            raise WrongUse(f"{file.read().strip() or 'another script'} is at work in this tree, and writes to the same folders")
    HELD[path] = file
    file.truncate(0)
    file.write(f"{os.path.basename(sys.argv[0])}, process {os.getpid()},\n")
    file.flush()


def take_over(source, target):
    """The files below one folder become those below another. Who reads there meanwhile misses none that is in both."""
    taken = {os.path.relpath(name, source) for name in matching(source, "**") if os.path.isfile(name)}
    for name in taken:
        os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
        os.replace(os.path.join(source, name), os.path.join(target, name))
    for name in matching(target, "**"):
        if os.path.isfile(name) and os.path.relpath(name, target) not in taken:
            with contextlib.suppress(FileNotFoundError):
                os.remove(name)


def children(process="self"):
    """Processes that this one, or another, has started and not yet seen end."""
    for path in glob.glob(f"/proc/{process}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            yield from [int(number) for number in file.read().split()]


def kill_below(process="self"):
    """What it started, and what that started. A process that goes on meanwhile may start more."""
    for child in list(children(process)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
            kill_below(child)
            os.kill(child, signal.SIGKILL)


def ends_with_parent(last_signal=signal.SIGKILL):
    """For a child, before its program runs: it gets this signal when the thread ends that starts it, whatever ends that. Nobody would
    end one that hangs, or fuzzes, later."""
    parent = os.getpid()

    def ask():
        LIBC.prctl(PR_SET_PDEATHSIG, last_signal, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), last_signal)
    return ask


STARTED, STARTING = weakref.WeakSet(), threading.Lock()


def start(command, last_signal=signal.SIGKILL, **more):
    """A process in a session of its own, which is out of reach of the terminal's Ctrl-C, and ends with who starts it."""
    with STARTING:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=ends_with_parent(last_signal), **more)
        STARTED.add(process)
    return process


def others():
    """Children that start() has not started. Who holds STARTING may take leave of them, and of no other: how those end is asked for
    elsewhere."""
    return set(children()) - {process.pid for process in STARTED if process.returncode is None}


def end(process):
    """One that start() has started, and all of its session, which may outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@functools.lru_cache(maxsize=None)
def toolchain():
    """The variables of ci/toolchain.sh."""
    text = subprocess.run(["bash", path("ci", "toolchain.sh")], stdout=subprocess.PIPE, text=True, errors="replace",
                          check=True).stdout
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def environment(**more):
    """For children: as the caller's, with the symbolizer that the sanitizers need for readable reports."""
    result = dict(os.environ)
    symbolizer = toolchain().get("LLVM_SYMBOLIZER")
    if symbolizer:
        for name in ("ASAN_SYMBOLIZER_PATH", "MSAN_SYMBOLIZER_PATH", "UBSAN_SYMBOLIZER_PATH"):
            result.setdefault(name, symbolizer)
    result.update(more)
    return result


def laws():
    """Ids of the laws in the order of laws.def, the one list of them."""
    with open(path("props", "laws", "laws.def")) as file:
        return re.findall(r"^LAW\((\w+),", file.read(), re.MULTILINE)


def chosen(variable, choice, known, unknown):
    """All that are known, or the ones of VARIABLE=a,b, each once; unknown(name) says what is wrong with another."""
    if not choice:
        return list(known)
    wanted = [name.strip() for name in choice.split(",")]
    for name in wanted:
        if name not in known:
            raise WrongUse(f"{variable}={choice}: {unknown(name)}")
    return list(dict.fromkeys(wanted))


def chosen_laws(choice):
    known = laws()
    return chosen("LAW", choice, known, lambda name: f"'{name}' is no law. The laws: {' '.join(known)}")


def number(name, text, kind=int, least=1):
    """A whole number from `least` on, or any above 0; below what the programs that get it can count to."""
    try:
        value = kind(text)
    except ValueError:
        value = -1
    enough = value >= least if kind is int else value > 0
    if not enough or not value < NUMBERS_END:
        bounds = f"whole number from {least} to {NUMBERS_END - 1}" if kind is int else f"number above 0 and below {NUMBERS_END}"
        raise WrongUse(f"{name}={text} is not a {bounds}")
    return value


def jobs():
    return number("JOBS", os.environ.get("JOBS") or str(len(os.sched_getaffinity(0))))


def require(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise WrongUse(f"{' '.join(missing)} is missing: run ci/install-deps.sh")


def first_failure(output):
    """Ninja goes on with what was under way, so the first failure is not at the end."""
    lines = output.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("FAILED:")), max(0, len(lines) - 30))
    return "\n".join(lines[first:first + 30])


BUILDING = collections.defaultdict(threading.Lock)


def build(preset, *targets):
    """Configures once and builds; the folder. Raises BuildFailed with what failed first."""
    with BUILDING[preset]:
        return build_alone(preset, targets)


def build_alone(preset, targets):
    if not shutil.which("cmake") or not shutil.which("ninja"):
        raise WrongUse("cmake or ninja is missing: run ci/install-deps.sh")
    directory = os.path.join(BUILD, preset)
    steps = [["cmake", "--build", "--preset", preset, "--parallel", str(jobs())]]
    if targets:
        steps[0] += ["--target", *targets]
    if not any(os.path.exists(os.path.join(directory, name)) for name in ("build.ninja", "Makefile")):
        steps.insert(0, ["cmake", "--preset", preset])
    os.makedirs(BUILD, exist_ok=True)
    turn = ["flock", "--close", os.path.join(BUILD, f".{preset}.lock")]  # ninja does not look whether another one is in a folder
    # AFL++'s compiler reads its mode from the environment on every call.
    mode = {"AFL_QUIET": "1", "AFL_LLVM_CMPLOG": "1"} if preset == "afl-cmplog" else {"AFL_QUIET": "1"}
    for step in steps:
        done = subprocess.run([*turn, *step], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", env=environment(**mode))
        if done.returncode:
            raise BuildFailed(f"{first_failure(done.stdout)}\nfailed: {' '.join(step)}")
    return directory


def fuzz_target(preset, law):
    return os.path.join(BUILD, preset, "fuzz", f"fuzz_{law}")


def commit():
    """As git tells it; a copy that came without its history is told by whoever copied it."""
    if os.environ.get("CPROUTE_COMMIT"):
        return os.environ["CPROUTE_COMMIT"]
    if not shutil.which("git"):
        return "unknown"
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, errors="replace")
    return done.stdout.strip() or "unknown"


def machine():
    """One line: processor, how many of them, system."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
        if found:
            model = found.group(1)
    system = "Linux"
    with open("/etc/os-release") as file:
        found = re.search(r'^PRETTY_NAME="(.*)"$', file.read(), re.MULTILINE)
        if found:
            system = found.group(1)
    return f"{model}, {len(os.sched_getaffinity(0))} cores used, {system}"


def needs_fixed_addresses():
    """More random bits of mmap than the sanitizers of older LLVM can live with (Ubuntu 24.04)."""
    try:
        with open("/proc/sys/vm/mmap_rnd_bits") as file:
            return int(file.read()) > 28
    except (OSError, ValueError):
        return False


def how_it_ended(status):
    """A process, by its exit code as subprocess tells it."""
    return f"exit code {status}" if status >= 0 else f"signal {-status}"


def shown(text):
    """What came from outside, such as the name of a file, in one line in which nothing speaks to the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def told(error):
    """What the system refuses, in one line."""
    parts = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*parts, error.strerror or str(error)])


def exit_code_of(run):
    """Of a script's main function; what it raises is told."""
    try:
        code = run()
        sys.stdout.flush()
        return code
    except WrongUse as wrong:
        print(f"{os.path.basename(sys.argv[0])}: {shown(str(wrong))}", file=sys.stderr)
        return EXIT_USAGE
    except Failed as failed:
        print(*map(shown, str(failed).splitlines()), sep="\n", file=sys.stderr)
        return EXIT_FINDINGS
    except OSError as error:
        print(f"{os.path.basename(sys.argv[0])}: {shown(told(error))}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def leave(code):
    """Ends the script so, even where nobody takes what it has still to print."""
    try:
        sys.stdout.flush()
    except OSError:
        forget([sys.stdout.fileno()])
    sys.exit(code)


def manual():
    """Of the script that runs, which is its docstring."""
    print((sys.modules["__main__"].__doc__ or "").strip())
    return EXIT_CLEAN


def main(run, fixed_addresses=True):
    """Runs a script's main function to the end of the script, unless it is only asked what it does. `fixed_addresses`: its programs
    may have sanitizers."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    if not {"-h", "--help"}.isdisjoint(sys.argv[1:]):
        leave(exit_code_of(manual))

    def checked():
        jobs()  # what comes of a wrong JOBS= later are failed tests, and half of the work
        return run()

    refused = False
    if fixed_addresses and needs_fixed_addresses() and not os.environ.get("CPROUTE_FIXED_ADDRESSES"):
        if shutil.which("setarch") and subprocess.run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ["CPROUTE_FIXED_ADDRESSES"] = "1"
            os.execvp("setarch", ["setarch", "-R", sys.executable, *sys.argv])
        refused = True
    code = exit_code_of(checked)
    if refused and code == EXIT_FINDINGS:
        print("setarch -R is refused here, as it is in containers with Docker's own seccomp profile: programs with sanitizers may have died"
              " of that", file=sys.stderr)
    leave(code)

# SPDX-License-Identifier: Apache-2.0
"""Named tests that pass, fail or are skipped, from any number of threads, and the line that counts them."""

import signal
import subprocess
import threading
import time

import tree

TAIL_LINES = 30

# cmocka would take a crash for a failed test and swallow the report; handle_* let the sanitizers have it first. Tests ask for more
# memory than there is, and want NULL.
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "handle_segv=2:handle_sigbus=2:handle_sigfpe=2:handle_sigill=2:detect_stack_use_after_return=1"
                    ":allocator_may_return_null=1",
    "MSAN_OPTIONS": "allocator_may_return_null=1",
    "TSAN_OPTIONS": "halt_on_error=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class Failed(tree.Failed):
    pass


class Skipped(tree.WrongUse):
    """A test that lacks something; what is no test cannot be used."""


def tail(text, lines=TAIL_LINES):
    return "\n".join(text.rstrip().splitlines()[-lines:])


def command(arguments, timeout=120, cwd=tree.ROOT, good=(0,), **more_environment):
    """Output of a command that must end with an exit code that is good."""
    shown = " ".join(arguments)
    shown = shown if len(shown) <= 200 else shown[:200] + " ..."
    try:
        process = subprocess.Popen(arguments, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env=tree.environment(**{**SANITIZER_ENVIRONMENT, **more_environment}))
    except FileNotFoundError:
        raise Failed(f"{arguments[0]} is not there")
    with process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as expired:
            # Tests of ctest, compilers of ninja: they would go on, beside whatever comes next.
            process.send_signal(signal.SIGSTOP)
            tree.kill_below(process.pid)
            process.kill()
            raise Failed(f"over {timeout} s: {shown}\n{tail((expired.stdout or b'').decode(errors='replace'))}")
        except BaseException:
            process.kill()
            raise
    if process.returncode not in good:
        raise Failed(f"exit code {process.returncode}: {shown}\n{tail(output)}")
    return output


def need(tool, name):
    """Skips a test that lacks a tool."""
    if not tool:
        raise Skipped(f"{name} is missing: ci/install-deps.sh installs it")
    return tool


# Failed and Skipped end a script as what they are in tree.py.
main = tree.main


class Suite:
    """Between `with tests.stop:` and its end, Ctrl-C kills what is under way, and nothing is run or told any more."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failures = []
        self.stop = tree.Stop(tree.kill_below)

    def record(self, outcome, name, seconds=0.0, details=""):
        with self.lock:
            if self.stop.asked:
                return
            self.counts[outcome] += 1
            told = "\n".join([f"{outcome:<8}{seconds:6.1f} s  {name}", *("    " + tree.shown(line) for line in details.splitlines())])
            print(told, flush=True)
            if outcome == "failed":
                self.failures.append(told)

    def run(self, name, test, *arguments):
        """Runs one test; true if it passed. What it returns, if anything, is printed with it."""
        if self.stop.asked:
            return False
        begun = time.monotonic()
        outcome, details = "passed", ""
        try:
            details = test(*arguments) or ""
        except tree.Failed as failure:
            outcome, details = "failed", str(failure)
        except Skipped as reason:
            outcome, details = "skipped", str(reason)
        except Exception as failure:  # a broken test is a failed one, and the others still run
            outcome, details = "failed", f"{type(failure).__name__}: {failure}"
        self.record(outcome, name, time.monotonic() - begun, details)
        return outcome == "passed"

    def end(self):
        """What failed once more, since logs are read from their end; the line that counts, last; the exit code."""
        if self.failures:
            print("\nwhat failed:", *self.failures, sep="\n")
        if self.stop.asked:
            print("interrupted: the rest was not run")
        print("{passed} passed, {failed} failed, {skipped} skipped".format(**self.counts), flush=True)
        if self.stop.asked and not self.counts["failed"]:
            return tree.EXIT_INTERRUPTED
        return tree.EXIT_FINDINGS if self.counts["failed"] or not self.counts["passed"] else tree.EXIT_CLEAN

# SPDX-License-Identifier: Apache-2.0
"""What can be said about the sources without running them; ci/check.py runs it."""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import suite
import swap
import tree

sys.path.insert(0, tree.path("tools", "adapters"))
import digests  # noqa: E402

OTHER_CLANGS = (16, 17, 18, 19, 20, 21)
SOURCE = re.compile(r"\.(c|h|cpp|cu|def)$")
SCRIPT = re.compile(r"(\.(py|sh|cmake)|(^|/)(CMakeLists\.txt|Makefile|run))$")


def files_of_tree():
    """Files that git has or would take."""
    suite.need(shutil.which("git"), "git")
    listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=tree.ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, errors="surrogateescape")
    if listed.returncode:
        raise suite.Skipped("not a git clone")
    return [name for name in listed.stdout.split("\0") if os.path.isfile(tree.path(name))]


def sources():
    return [name for name in files_of_tree() if SOURCE.search(name)]


def formatted():
    clang_format = suite.need(tree.toolchain()["CLANG_FORMAT"], "clang-format-14")
    suite.command([clang_format, "--dry-run", "-Werror", *[name for name in sources() if not name.endswith(".def")]])


def licensed():
    def first_lines(name):
        with open(tree.path(name), errors="replace") as file:
            return file.readline() + file.readline()

    files = [name for name in files_of_tree() if SOURCE.search(name) or SCRIPT.search(name)]
    bare = [name for name in files if "SPDX-License-Identifier: Apache-2.0" not in first_lines(name)]
    if bare:
        raise suite.Failed("no SPDX line: " + " ".join(bare))


def public_headers():
    folder = tree.path("engine", "include", "cproute")
    return [os.path.join(folder, name) for name in tree.sources(folder) if name.endswith(".h") and "cuda" not in name]


def header_as(compiler, language, standard):
    for header in public_headers():
        suite.command([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow",
                       "-Werror", "-fsyntax-only", header])


def static_analysis():
    cppcheck = suite.need(tree.toolchain()["CPPCHECK"], "cppcheck")
    suite.command([cppcheck, "--quiet", "--error-exitcode=1", "--std=c11", "--enable=warning,portability",
                   "--inline-suppr", "--suppress=missingIncludeSystem", "--suppress=uninitvar", "-I", "engine/include", "-I", "engine", "-j",
                   str(tree.jobs()), "engine"])


def man_pages():
    pages = [name for name in files_of_tree() if re.search(r"\.[1-8]$", name)]
    if not pages:
        raise suite.Failed("no man page")
    suite.command([suite.need(shutil.which("mandoc"), "mandoc"), "-T", "lint", "-W", "warning", *pages])


def upstream_is_of_this_corpus():
    """A new case needs no clone of Megatron-LM: the page is then out of date, and says of what."""
    reason = digests.stale(tree.ROOT)
    if reason:
        raise suite.Skipped(reason)


def reading_commands():
    """[(directory, arguments, file)] of all C sources of the release build, for tools that read but do not compile: output, and
    gcc's own link-time options, mean nothing to them."""
    with open(os.path.join(tree.BUILD, "release", "compile_commands.json")) as file:
        entries = [entry for entry in json.load(file) if entry["file"].endswith(".c")]
    commands = []
    for entry in entries:
        words = swap.without_launcher(shlex.split(entry["command"]))
        commands.append((entry["directory"], words[1:words.index("-o")], entry["file"]))
    return commands


def warnings_of(version):
    """All sources of the release build, by another clang, for its warnings."""
    commands = reading_commands()
    for directory, words, source in commands:
        suite.command([f"clang-{version}", "-fsyntax-only", *words, source], cwd=directory)
    return f"{len(commands)} files"


def tidy():
    """clang-tidy on the sources of the release build; .clang-tidy says what it looks for."""
    clang_tidy = suite.need(tree.toolchain()["CLANG_TIDY"], "clang-tidy-14")
    commands = {source: (directory, words) for directory, words, source in reading_commands()}

    def read(source):
        directory, words = commands[source]
        done = subprocess.run([clang_tidy, "--quiet", source, "--", *words], cwd=directory, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="replace")
        return done.stdout if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(max_workers=tree.jobs()) as pool:
        told = "".join(pool.map(read, commands))
    if told:
        raise suite.Failed(told)
    return f"{len(commands)} files"


def shell_scripts():
    shellcheck = suite.need(shutil.which("shellcheck"), "shellcheck")
    scripts = [name for name in files_of_tree() if name.endswith(".sh") or name == ".ci/run"]
    suite.command([shellcheck, *scripts])
    return f"{len(scripts)} scripts"


def clangs():
    return [version for version in OTHER_CLANGS if shutil.which(f"clang-{version}")]


CHECKS = (
    ("lint: clang-format", formatted),
    ("lint: SPDX line in every source", licensed),
    ("lint: public headers as C11, pedantic", lambda: header_as("gcc", "c", "c11")),
    ("lint: public headers as C++11, pedantic", lambda: header_as("g++", "c++", "c++11")),
    ("lint: cppcheck", static_analysis),
    ("lint: man page", man_pages),
    ("lint: shellcheck", shell_scripts),
    ("lint: what is known of upstream is about this corpus", upstream_is_of_this_corpus),
)

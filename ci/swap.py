# SPDX-License-Identifier: Apache-2.0
"""Programs of a build with other sources in the place of some of the engine's: for mutants and planted faults.

A program is built once as it is. Then only sources that differ are compiled, with the flags that the build compiles them with,
and the program is linked again with their objects ahead of the library, so that the linker takes no others from there.
"""

import functools
import os
import re
import resource
import shlex
import shutil
import subprocess

import tree

ENGINE = tree.path("engine")
LAUNCHERS = ("ccache", "sccache")


class NotCompiled(Exception):
    """The compiler or the linker refused what it was given."""


# Of the compiler, at a place in the source; a compiler that was killed or had no room says `error` too, of no place. Of the linkers.
REFUSED_BY_COMPILER = re.compile(r"^[^\s:][^:\n]*:\d+:(\d+:)? error: ", re.MULTILINE)
REFUSED_BY_LINKER = re.compile(r"undefined (reference to|symbol)|multiple definition of|duplicate symbol")


def judge(done, refused):
    """Raises NotCompiled if this is a refusal; all else that failed says nothing about the source, and ends the script."""
    if done.returncode == 1 and refused.search(done.stdout):
        raise NotCompiled(done.stdout.strip())
    if done.returncode:
        how = tree.how_it_ended(done.returncode)
        raise tree.BuildFailed(f"{done.stdout.strip()}\nfailed, {how}: {shlex.join(done.args)}".strip())


def environment(preset):
    return tree.environment(AFL_QUIET="1", **({"AFL_LLVM_CMPLOG": "1"} if preset == "afl-cmplog" else {}))


def without_launcher(words):
    return words[1:] if os.path.basename(words[0]) in LAUNCHERS else words


class Build:
    """The commands of one preset."""

    def __init__(self, preset, *targets):
        self.preset = preset
        self.folder = tree.build(preset, *targets)
        self.environment = environment(preset)

    @functools.lru_cache(maxsize=None)
    def commands(self, target):
        listed = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], stdout=subprocess.PIPE, text=True, errors="replace",
                                check=True)
        return [line for line in listed.stdout.splitlines() if " -o " in line]

    @functools.lru_cache(maxsize=None)
    def compile_words(self):
        """As engine sources are compiled: words up to `-o`."""
        for line in self.commands("cproute_static"):
            if line.endswith(".c") and "/engine/" in line:
                words = without_launcher(shlex.split(line))
                return tuple(words[:words.index("-MD")] if "-MD" in words else words[:words.index("-o")])
        raise tree.BuildFailed(f"no engine source is compiled in build/{self.preset}")

    def compile(self, source, out, *more):
        """Raises NotCompiled. `more` comes after the build's own flags."""
        judge(self.run([*self.compile_words(), *more, "-o", out, "-c", source]), REFUSED_BY_COMPILER)

    def run(self, words):
        """In a session of its own, where Ctrl-C reaches it by way of this script alone, and in English, which is looked at."""
        return subprocess.run(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", env={**self.environment, "LC_ALL": "C"}, start_new_session=True)

    @functools.lru_cache(maxsize=None)
    def link_words(self, target):
        """(words before the first library, words after, the program)"""
        line = self.commands(target)[-1]
        line = re.sub(r"^: && |( && :)+$", "", line)
        words = without_launcher(shlex.split(line))
        at = words.index("-o")
        program = words[at + 1]
        del words[at:at + 2]
        first = next(i for i, word in enumerate(words) if word.endswith(".a"))
        return words[:first], words[first:], os.path.join(self.folder, program)

    def program(self, target):
        return self.link_words(target)[2]

    def link(self, target, objects, out):
        before, after, _ = self.link_words(target)
        judge(self.run([*before, *objects, *after, "-o", out]), REFUSED_BY_LINKER)


def files():
    """Names of the library's sources and private headers, without those of its GPU part."""
    return [name for name in tree.sources(ENGINE) if name.endswith((".c", ".h"))]


@functools.lru_cache(maxsize=None)
def included_by(name):
    """Names of the sources that are compiled with a file in them."""
    if name.endswith(".c"):
        return (name,)
    users = set()
    for other in files():
        with open(os.path.join(ENGINE, other)) as file:
            if other != name and f'#include "{name}"' in file.read():
                users.update(included_by(other))
    return tuple(sorted(users))


def overlay(folder):
    """A copy of the engine made of links, in which single files can be replaced."""
    engine = os.path.join(folder, "engine")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(engine)
    folders = [name for name in os.listdir(ENGINE) if os.path.isdir(os.path.join(ENGINE, name))]
    for name in [*tree.sources(ENGINE), *folders]:
        os.symlink(os.path.join(ENGINE, name), os.path.join(engine, name))
    return engine


def replace(engine, name, text):
    """Puts other text in the place of a file of an overlay."""
    place = os.path.join(engine, name)
    os.remove(place)
    with open(place, "w") as file:
        file.write(text)


def restore(engine, name):
    place = os.path.join(engine, name)
    os.remove(place)
    os.symlink(os.path.join(ENGINE, name), place)


def limits(cpu_seconds, memory_bytes):
    """For a child: it is killed beyond them, and with who started it, and leaves no core."""
    end_with_parent = tree.ends_with_parent()

    def set_limits():
        end_with_parent()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        if memory_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    return set_limits

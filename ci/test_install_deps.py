#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ci/install-deps.sh says where it may not install, on a made-up machine that has nothing."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import check
import tree

TOOLS = ("basename", "bash", "cat", "chmod", "cut", "dirname", "grep", "head", "ln", "ls", "mkdir", "mv", "rm", "sed", "touch")
FAKES = {"id": "echo 1000", "apt-get": "exit 1", "apt-cache": "exit 1", "dpkg-query": "exit 1"}


class InstallDepsTest(unittest.TestCase):
    def done(self, *arguments, script=None, **more_fakes):
        with tempfile.TemporaryDirectory() as folder:
            for tool in TOOLS:
                os.symlink(shutil.which(tool), os.path.join(folder, tool))
            for name, fake in {**FAKES, **more_fakes}.items():
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(f"#!{shutil.which('bash')}\n{fake}\n")
                os.chmod(path, 0o755)
            return subprocess.run([shutil.which("bash"), script or tree.path("ci", "install-deps.sh"), *arguments],
                                  env={"PATH": folder, "CUDA_PATH": folder}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)

    def told(self, *arguments, **more_fakes):
        done = self.done(*arguments, **more_fakes)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr

    def test_without_sudo_it_says_su(self):
        told = self.told()
        self.assertRegex(told, r"(?m)^    su -c 'apt-get update && apt-get install -y --no-install-recommends gcc .*'$")
        self.assertNotIn("sudo sh", told)

    def test_with_a_sudo_that_asks_it_says_sudo(self):
        told = self.told(sudo="exit 1")
        self.assertRegex(told, r"(?m)^    sudo sh -c 'apt-get update && apt-get install .* gcc .*'$")
        self.assertNotIn("su -c", told)

    def test_all_lanes_need_what_each_of_them_does(self):
        def packages(*lanes):
            return set(re.search(r"recommends (.*)'", self.told(*lanes)).group(1).split())
        self.assertEqual(packages("all"), packages(*check.EXTRA_LANES))
        self.assertLess(packages(), packages("all"))

    def with_cuda(self, python, **more_fakes):
        """--gpu in a tree of its own, where `python` stands for python3. What was done, and the files of .cuda."""
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "ci"))
            script = shutil.copy(tree.path("ci", "install-deps.sh"), os.path.join(root, "ci"))
            done = self.done("--gpu", script=script, python3=python, **more_fakes)
            files = [os.path.relpath(os.path.join(folder, name), os.path.join(root, ".cuda"))
                     for folder, _, names in os.walk(os.path.join(root, ".cuda")) for name in names]
            return done, sorted(files)

    def test_cuda_without_pip_says_what_to_install(self):
        done, files = self.with_cuda("exit 1")
        self.assertEqual((done.returncode, files), (2, []))
        self.assertIn("python3-pip", done.stderr)

    def test_cuda_wheels_become_a_toolkit(self):
        done, files = self.with_cuda("""
            case "$*" in
            *--version*) exit 0 ;;
            esac
            while [ "$1" != --target ]; do shift; done
            mkdir -p "$2"/nvidia/cu13/bin "$2"/nvidia/cu13/lib "$2"/nvidia/cu13/nvvm/bin "$2"/nvidia/nccl/include "$2"/nvidia/nccl/lib
            touch "$2"/nvidia/cu13/bin/nvcc "$2"/nvidia/cu13/nvvm/bin/cicc "$2"/nvidia/cu13/lib/libcudart.so.13
            touch "$2"/nvidia/nccl/include/nccl.h "$2"/nvidia/nccl/lib/libnccl.so.2""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "nvidia-nccl-cu13==.* nvidia-cuda-nvcc==")
        self.assertEqual(files, ["bin/nvcc", "include/nccl.h", "lib/libcudart.so", "lib/libcudart.so.13", "lib/libnccl.so",
                                 "lib/libnccl.so.2", "nvvm/bin/cicc"])

    def test_cuda_wheels_that_are_not_to_be_had_leave_nothing(self):
        done, files = self.with_cuda("""[ "$2" = pip ] && [ "$3" = --version ]""")
        self.assertEqual((done.returncode, files), (1, []))
        self.assertIn("left out", done.stderr)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What ci/install-deps.sh says where it may not install, on a made-up machine that has nothing."""

import os
import shutil
import subprocess
import tempfile
import unittest

import tree

TOOLS = ("bash", "cat", "cut", "grep", "head", "sed")
FAKES = {"id": "echo 1000", "apt-get": "exit 1", "apt-cache": "exit 1", "dpkg-query": "exit 1"}


class InstallDepsTest(unittest.TestCase):
    def told(self, **more_fakes):
        with tempfile.TemporaryDirectory() as folder:
            for tool in TOOLS:
                os.symlink(shutil.which(tool), os.path.join(folder, tool))
            for name, script in {**FAKES, **more_fakes}.items():
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(f"#!{shutil.which('bash')}\n{script}\n")
                os.chmod(path, 0o755)
            done = subprocess.run([shutil.which("bash"), tree.path("ci", "install-deps.sh")], env={"PATH": folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


if __name__ == "__main__":
    unittest.main()

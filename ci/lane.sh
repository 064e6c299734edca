#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the lanes of ci/check.py need, then runs them: ci/lane.sh LANE...
set -euo pipefail
cd "$(dirname "$0")/.."
ci/install-deps.sh "$@"
exec python3 ci/check.py "$@"

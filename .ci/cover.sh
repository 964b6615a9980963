#!/usr/bin/env bash
# Measures which statements of the packages below their tests run, all tests
# together, and fails if a package is under COVERMIN percent (90 by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/lib.sh

packages="guard guard/redisstore retry fence"
bash .ci/setup redis-server

list=
for p in $packages; do list="$list,$module/$p"; done
tests=$(go list ./guard/... ./retry/... ./fence/... | grep -vE '/timing(/|$)')
# shellcheck disable=SC2086 # import paths have no spaces
go test -count=1 -timeout 10m -covermode=set -coverpkg="${list#,}" -coverprofile=cover.out $tests

# A line is "file:from,to statements count"; every test binary writes all lines.
awk -v module="$module" -v packages="$packages" -v min="${COVERMIN:-90}" '
NR > 1 {
	statements[$1] = $2
	if ($3 > 0) hit[$1] = 1
}
END {
	for (block in statements) {
		p = block
		sub(/\/[^\/]*:.*/, "", p)
		sub("^" module "/", "", p)
		all[p] += statements[block]
		if (block in hit) run[p] += statements[block]
	}
	n = split(packages, names, " ")
	print ""
	for (i = 1; i <= n; i++) {
		p = names[i]
		percent = all[p] ? 100 * run[p] / all[p] : 0
		verdict = percent < min ? "below " min " %" : ""
		if (verdict) failed = 1
		printf "%-20s %6.1f %% of %5d statements  %s\n", p, percent, all[p], verdict
	}
	exit failed
}' cover.out

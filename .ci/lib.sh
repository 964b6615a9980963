# shellcheck shell=bash disable=SC2034
# What the scripts beside this file share. They run in the root of the repository.

module=$(go list -m)

# modules prints the folder of every module, the root first.
modules() {
	find . -name go.mod -not -path '*/testdata/*' -not -path './.*/*' -exec dirname {} \; | LC_ALL=C sort
}

# each_module COMMAND...: runs it in every module, and fails at the end if any failed.
each_module() {
	local dir failed=
	while read -r dir; do
		(cd "$dir" && "$@" </dev/null) || failed="$failed $dir"
	done <<<"$(modules)"
	if [ -n "$failed" ]; then
		echo "failed in module$failed: $*" >&2
		return 1
	fi
}

# can_race tells whether the race detector can be linked here.
can_race() { [ "$(go env CGO_ENABLED)" = 1 ] || [ "$(go env GOOS)" = darwin ]; }

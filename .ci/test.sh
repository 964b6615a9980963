#!/usr/bin/env bash
# Checks and tests every module of the repository:
#
#	.ci/test.sh [format|tidy|vet|lint|unit|timing]...
#
# Without arguments it installs redis-server where that is missing, and does all
# of them in this order.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. .ci/lib.sh

# Any newer release may find more, so an upgrade is a commit of its own.
golangci=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

format() {
	local wrong
	wrong=$(gofmt -l .)
	if [ -n "$wrong" ]; then
		echo "not as gofmt writes them:" "$wrong" >&2
		return 1
	fi
}

tidy() { each_module go mod tidy -diff; }

# Other modules are tests and examples, which may be for Unix only.
vet() {
	each_module go vet ./...
	GOOS=windows go vet ./...
	GOOS=darwin go vet ./...
}

lint() { each_module go run "$golangci" run --config "$PWD/.golangci.yml" ./...; }

# Bounds in real time are tested in packages named timing: one at a time, with
# nothing else running and without the race detector, which is what they bound.
# The models run on one goroutine, so the race detector could only slow them.
timed='/timing(/|$)'
single="^$module/internal/model(/|\$)"

# test_where GREP-ARGUMENTS -- GO-TEST-ARGUMENTS: the packages that grep -E lets through.
test_where() {
	local filter=() packages
	while [ "$1" != -- ]; do
		filter+=("$1")
		shift
	done
	shift
	packages=$(go list ./...) || return 1
	packages=$(grep -E "${filter[@]}" <<<"$packages") || return 0 # none
	# shellcheck disable=SC2086 # import paths have no spaces
	go test -count=1 "$@" $packages
}

unit() {
	local race=()
	if can_race; then
		race=(-race)
	else
		echo "*** no C compiler: THE TESTS RUN WITHOUT THE RACE DETECTOR" >&2
		[ -z "${CI:-}" ] || return 1
	fi
	each_module test_where -v "$timed|$single" -- -timeout 10m ${race[@]+"${race[@]}"}
	each_module test_where "$single" -- -timeout 10m
}

timing() { each_module test_where "$timed" -- -timeout 10m -p 1; }

if [ $# = 0 ]; then
	bash .ci/setup redis-server
	set -- format tidy vet lint unit timing
fi
for step in "$@"; do
	started=$SECONDS
	echo "== $step"
	"$step"
	echo "== $step: $((SECONDS - started)) s"
done

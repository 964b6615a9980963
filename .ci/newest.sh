#!/usr/bin/env bash
# Tests a copy of the module with the newest release of each dependency. go.mod
# asks for the oldest that will do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | tar -cf - --null -T - | tar -xf - -C "$copy"
cd "$copy"
go get -u -t ./...
go mod tidy
go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}} {{.Version}}{{end}}' all
go vet ./...
# Not the models, bounds in real time, or what dependencies bring along themselves.
packages=$(go list ./... | grep -Ev '/timing(/|$)|/internal/(model|mutate|firewall)(/|$)')
# shellcheck disable=SC2086 # import paths have no spaces
go test -count=1 -timeout 10m $packages

#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME each (30s by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

found=
while IFS=: read -r file name; do
	[ -n "$file" ] || continue
	found=yes
	echo "== $(dirname "$file") $name"
	(cd "$(dirname "$file")" && go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" .)
done <<<"$(grep -rEo --include='*_test.go' '^func Fuzz\w+' . | sed 's/:func /:/' | LC_ALL=C sort)"
if [ -z "$found" ]; then
	echo "fuzz: there is no fuzz target" >&2
	exit 1
fi

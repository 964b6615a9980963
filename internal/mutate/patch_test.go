package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHeaderNamesRuleAndTest(t *testing.T) {
	p, err := parsePatch(`# rule:  numbers are even
Any other line is a remark.
# test: go test -race ./even -run '^(TestA|TestB)$'  -short
diff --git a/even/even.go b/even/even.go
# rule: not this one
`)
	require.NoError(t, err)
	assert.Equal(t, "numbers are even", p.rule)
	assert.Equal(t, []string{"go", "test", "-race", "./even", "-run", "^(TestA|TestB)$", "-short"}, p.test)
}

func TestIncompleteHeaderIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no rule":          {"# test: go test . -run X\n", `"# rule:"`},
		"no test":          {"# rule: r\n", `"# test: go test"`},
		"only in the diff": {"# rule: r\n--- a/x\n# test: go test . -run X\n", `"# test: go test"`},
		"another command":  {"# rule: r\n# test: go run . -run X\n", `"# test: go test"`},
		"no name":          {"# rule: r\n# test: go test . -runner X\n", "names no test with -run"},
		"two tests":        {"# rule: r\n# test: go test . -run X\n# test: go test . -run Y\n", "two lines"},
		"open quote":       {"# rule: r\n# test: go test . -run 'X\n", "left open"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parsePatch(tc.text)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestCommandIsSplitAsAShellDoes(t *testing.T) {
	for command, want := range map[string][]string{
		"":                  nil,
		" a  b\tc ":         {"a", "b", "c"},
		`-run='^Test A$'`:   {"-run=^Test A$"},
		`"it's" '' 'say "'`: {"it's", "", `say "`},
	} {
		words, err := split(command)
		require.NoError(t, err)
		assert.Equal(t, want, words, "%q", command)
	}
}

func TestEveryPatchHereIsCompleteAndApplies(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	files, err := filepath.Glob("*.patch")
	require.NoError(t, err)
	for _, file := range files {
		p, err := readPatch(filepath.Join(root, "internal", "mutate", file))
		if !assert.NoError(t, err) {
			continue
		}
		out, err := apply(t.Context(), root, p.file, "--check")
		assert.NoError(t, err, "%s: %s", file, out)
	}
}

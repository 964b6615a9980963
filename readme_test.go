package holdfast_test

import (
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Code in the README is code of the examples: a line of it that no test file has
// would not be compiled by anybody.
func TestReadmeCodeIsExampleCode(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	known := map[string]bool{"": true}
	for _, file := range []string{"example_test.go", "unit_test.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(source)) {
			known[strings.TrimSpace(line)] = true
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		_, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+block[1]+"\n}", 0)
		require.NoError(t, err, "pasted as it stands: %s", block[1])
		for line := range strings.Lines(block[1]) {
			assert.True(t, known[strings.TrimSpace(line)], "README has code that no example has: %s", line)
		}
	}
}

func TestReadmeNamesWhatThereIs(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, command := range []string{"go run ./cmd/holdfast demo", "make test"} {
		assert.Contains(t, string(readme), command)
	}
	for _, m := range regexp.MustCompile(`\]\(([a-zA-Z][^):]*)\)`).FindAllStringSubmatch(string(readme), -1) {
		_, err := os.Stat(strings.Split(m[1], "#")[0])
		assert.NoError(t, err, "a link of the README leads nowhere")
	}
}

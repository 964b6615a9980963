package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is a module with one rule: Half refuses odd numbers.
var sample = map[string]string{
	"go.mod": "module sample\n\ngo 1.26\n",
	"half.go": `package sample

func Half(n int) (half int, ok bool) {
	if n%2 != 0 {
		return 0, false
	}
	return n / 2, true
}
`,
	"half_test.go": `package sample

import "testing"

func TestOddIsRefused(t *testing.T) {
	if _, ok := Half(3); ok {
		t.Error("3 has a half")
	}
}

func TestEvenIsHalved(t *testing.T) {
	if n, ok := Half(4); n != 2 || !ok {
		t.Error(n, ok)
	}
}

func TestSkipped(t *testing.T) { t.Skip("no server") }

func TestWrong(t *testing.T) { t.Error("always") }
`,
	"exit/exit.go": "package exit\n\nconst Code = 0\n",
	"exit/exit_test.go": `package exit

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if m.Run() != 0 || Code != 0 {
		os.Exit(3)
	}
}

func TestNothing(t *testing.T) {}
`,
}

// change makes a patch of one line of half.go.
func change(from, to string) string {
	return "diff --git a/half.go b/half.go\n--- a/half.go\n+++ b/half.go\n" +
		"@@ -3,5 +3,5 @@\n func Half(n int) (half int, ok bool) {\n-\t" + from + "\n+\t" + to +
		"\n \t\treturn 0, false\n \t}\n \treturn n / 2, true\n"
}

const (
	odd     = "if n%2 != 0 {"
	oddTest = "go test . -run '^TestOddIsRefused$'"
)

// write writes a file below dir.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// newSample lays out the sample module in a git repository.
func newSample(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range sample {
		write(t, root, name, content)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
	}
	return root
}

// try runs the patches, given as header command and diff by name.
func try(t *testing.T, root string, workers int, patches map[string][2]string) map[string]result {
	t.Helper()
	dir := t.TempDir()
	var parsed []patch
	for name, p := range patches {
		p, err := readPatch(write(t, dir, name+".patch", "# rule: half\n# test: "+p[0]+"\n"+p[1]))
		require.NoError(t, err)
		parsed = append(parsed, p)
	}
	got := map[string]result{}
	r := runner{root: root, workers: workers, timeout: time.Minute, report: func(r result) { got[r.patch.name] = r }}
	results, err := r.run(t.Context(), parsed)
	require.NoError(t, err)
	require.Len(t, results, len(patches))
	return got
}

func TestEachFateOfAPatchIsTold(t *testing.T) {
	got := try(t, newSample(t), 1, map[string][2]string{
		"caught":       {oddTest, change(odd, "if false {")},
		"caught-too":   {oddTest, change(odd, "if n == 1 {")},
		"panics":       {oddTest, change(odd, `if n%2 != 0 { panic("odd")`)},
		"survived":     {"go test . -run '^TestEvenIsHalved$'", change(odd, "if false {")},
		"moved":        {oddTest, change("if n%2 == 1 {", "if false {")},
		"no-compile":   {oddTest, change(odd, "if n {")},
		"missing":      {"go test . -run '^TestOdd$'", change(odd, "if false {")},
		"skipped":      {"go test . -run '^TestSkipped$'", change(odd, "if false {")},
		"wrong-before": {"go test . -run '^TestWrong$'", change(odd, "if false {")},
		"odd-exit": {"go test ./exit -run '^TestNothing$'", "--- a/exit/exit.go\n+++ b/exit/exit.go\n" +
			"@@ -1,3 +1,3 @@\n package exit\n \n-const Code = 0\n+const Code = 1\n"},
	})
	for name, want := range map[string]verdict{
		"caught": caught, "caught-too": caught, "panics": caught, "survived": survived, "moved": doesNotApply,
		"no-compile": doesNotCompile, "missing": noTest, "skipped": noTest, "wrong-before": failsAnyway, "odd-exit": failsOddly,
	} {
		assert.Equal(t, want, got[name].verdict, "%s: %s", name, got[name].output)
	}
}

func TestCopyIsWhatGitTracksAsItIsNow(t *testing.T) {
	root := newSample(t)
	write(t, root, "half.go", sample["half.go"]+"\nconst More = 1\n")
	write(t, root, "junk.go", "package junk\n")
	require.NoError(t, os.Remove(filepath.Join(root, "exit", "exit_test.go")))
	dir := t.TempDir()
	require.NoError(t, copyTree(t.Context(), root, dir))

	content, err := os.ReadFile(filepath.Join(dir, "half.go"))
	require.NoError(t, err)
	assert.Contains(t, string(content), "More")
	assert.NoFileExists(t, filepath.Join(dir, "junk.go"))
	assert.NoFileExists(t, filepath.Join(dir, "exit", "exit_test.go"))
}

func TestPatchesAppliedAtATimeDoNotMeet(t *testing.T) {
	patches := map[string][2]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		patches[name] = [2]string{oddTest, change(odd, "if false {")}
	}
	for name, r := range try(t, newSample(t), 3, patches) {
		assert.Equal(t, caught, r.verdict, "%s: %s", name, r.output)
	}
}

func TestSummaryIsAnErrorUnlessAllAreCaught(t *testing.T) {
	require.NoError(t, summary([]result{{verdict: caught}, {verdict: caught}}))
	require.Error(t, summary([]result{{verdict: caught}, {verdict: survived}}))
}

func TestEndedContextIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := write(t, t.TempDir(), "p.patch", "# rule: half\n# test: "+oddTest+"\n"+change(odd, "if false {"))
	p, err := readPatch(file)
	require.NoError(t, err)
	_, err = runner{root: newSample(t), workers: 1, timeout: time.Minute, report: func(result) {}}.run(ctx, []patch{p})
	require.ErrorIs(t, err, context.Canceled)
}

// Package firewall is the import table of this module as a test: which package
// may import which other one, and what it may bring into a user's build.
package firewall_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-go/holdfast"

// list returns the packages of our module, built for goos, and all they need.
func list(t *testing.T, goos string) *checker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Module,GoFiles,Imports,Deps", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	c := &checker{module: module, all: map[string]built{}}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p built
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return c
		}
		require.NoError(t, err)
		c.all[p.ImportPath] = p
	}
}

func TestPackagesImportWhatTheTableAllows(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		c := list(t, goos)
		require.Contains(t, c.all, module+"/guard")
		for path, p := range c.all {
			if _, own := c.own(path); !own {
				continue
			}
			for _, wrong := range c.check(p) {
				t.Errorf("%s: %s", goos, wrong)
			}
		}
	}
}

func TestRowsAgreeOnWhatNobodyMayImport(t *testing.T) {
	for _, r := range table {
		assert.False(t, allows(r, "otelx"), "%s may import otelx", r.pkg)
		for _, m := range table {
			if matches("middleware/...", m.pkg) {
				assert.False(t, allows(r, m.pkg), "%s may import %s", r.pkg, m.pkg)
			}
		}
		assert.False(t, allows(r, "go.opentelemetry.io/otel/sdk"), "%s may import the SDK", r.pkg)
	}
}

func TestPackageOfTestsNeedsNoRow(t *testing.T) {
	c := &checker{module: module}
	assert.Empty(t, c.check(built{ImportPath: module + "/guard/timing"}))
}

func TestViolationsAreFound(t *testing.T) {
	const redis, atomic = "github.com/redis/go-redis/v9", "go.uber.org/atomic"
	own := func(pkg string) string { return module + "/" + pkg }
	for _, tc := range []struct {
		name    string
		pkg     string
		imports []string
		deps    []string
		want    []string
	}{
		{"allowed", "guard/redisstore", []string{own("guard"), redis, "context"}, []string{atomic}, nil},
		{"a package of ours", "guard", []string{own("otelx")}, nil, []string{"guard imports otelx"}},
		{"between middlewares", "middleware/httpguard", []string{own("middleware/grpcguard")}, nil, []string{"imports middleware/grpcguard"}},
		{"a module", "guard", []string{redis}, nil, []string{"brings the module " + redis, "imports " + redis}},
		{"a module by way of another", "retry", nil, []string{atomic}, []string{"brings the module " + atomic}},
		{"testing", "guard", []string{"testing"}, nil, []string{"brings the package testing"}},
		{"testing by way of another", "guard/memstore", nil, []string{"testing/synctest"}, []string{"brings the package testing/synctest"}},
		{"testing in a suite", "guard/guardtest", []string{"testing"}, nil, nil},
		{"testing in internal", "internal/redistest", []string{"testing"}, nil, nil},
		{"no row", "guard/pgstore", nil, nil, []string{"guard/pgstore has no row"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &checker{module: module, all: map[string]built{}}
			for _, path := range append(tc.imports, tc.deps...) {
				p := built{ImportPath: path, Standard: path == "context" || isTesting(path)}
				switch path {
				case redis, atomic:
					p.Module.Path = path
				}
				c.all[path] = p
			}
			got := c.check(built{ImportPath: own(tc.pkg), GoFiles: []string{"a.go"}, Imports: tc.imports, Deps: append(tc.imports, tc.deps...)})
			require.Len(t, got, len(tc.want), "%q", got)
			for i := range got {
				assert.Contains(t, got[i], tc.want[i])
			}
		})
	}
}

package firewall_test

import "strings"

// row is one line of the import table: what a package may import besides the
// standard library, in code that is not test code.
type row struct {
	pkg string // below the module; "dir/..." for all below dir
	may string // own packages below the module, others by module; "..." as above
	why string
}

const (
	goRedis   = " github.com/redis/go-redis/v9"
	backoff   = " github.com/cenkalti/backoff/v4"
	testify   = " github.com/stretchr/testify"
	telemetry = " go.opentelemetry.io/otel go.opentelemetry.io/otel/metric go.opentelemetry.io/otel/trace"
	gRPC      = " google.golang.org/grpc google.golang.org/genproto/googleapis/rpc google.golang.org/protobuf"
	system    = " golang.org/x/sys"
)

// The first row that fits counts. Packages of rows may be missing, but no package
// may lack a row.
var table = []row{
	{".", "", "documentation and a tour for readers"},
	{"fence", "", "a storage that checks tokens needs nothing else of ours"},
	{"fence/sqlfence", "fence", "database/sql is the interface to every driver"},
	{"fence/redisfence", "guard fence" + goRedis, ""},
	{"retry", backoff, "one set of schedules, from outside"},

	{"guard", "fence retry" + system, "closures know stores through Locker alone; no client, no telemetry, no transport"},
	{"guard/memstore", "guard fence retry" + system, "tests of users run with it and should build fast"},
	{"guard/redisstore", "guard fence" + goRedis, ""},
	{"guard/guardtest", "guard fence" + testify, "the one public package for test code"},

	{"otelx", "guard fence" + telemetry, "the API only: choosing an SDK is the application's part"},
	{"middleware/httpguard", "guard fence", "an HTTP service must not build gRPC"},
	{"middleware/lockpage", "guard fence", "see httpguard"},
	{"middleware/grpcguard", "guard fence" + gRPC, ""},

	{"cmd/holdfast/internal/clitest", "cmd/... internal/..." + goRedis + testify, "test code"},
	{"cmd/...", "cmd/... fence/... guard/... retry internal/..." + goRedis + system, ""},
	{"internal/...", "fence/... guard/... retry internal/..." + goRedis + testify + system, "test code and tools"},
}

// brings tells which modules a module is known to bring into a build. One that
// is missing here has come with an upgrade, and users would notice it first.
var brings = map[string]string{
	"github.com/redis/go-redis/v9": "github.com/cespare/xxhash/v2 go.uber.org/atomic golang.org/x/sys",
	"github.com/stretchr/testify":  "github.com/davecgh/go-spew github.com/pmezard/go-difflib gopkg.in/yaml.v3",
	"go.opentelemetry.io/otel":     "github.com/cespare/xxhash/v2 github.com/go-logr/logr github.com/go-logr/stdr go.opentelemetry.io/auto/sdk",
	"google.golang.org/grpc":       "golang.org/x/net golang.org/x/sys golang.org/x/text",
}

// mayTest tells whether a package may use the package testing outside its tests.
func mayTest(pkg string) bool {
	return pkg == "guard/guardtest" || pkg == "cmd/holdfast/internal/clitest" || strings.HasPrefix(pkg, "internal/")
}

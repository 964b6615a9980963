package redisstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var micros = regexp.MustCompile(`\d{16}`)

// undated replaces the server's time in a reply or a value.
func undated(s string, now int64) string {
	if reply := strings.Fields(s); len(reply) == 4 && reply[0] == "G" {
		s = reply[0] + reply[1] // and the time of the grant
	}
	return micros.ReplaceAllStringFunc(s, func(d string) string {
		n, err := strconv.ParseInt(d, 10, 64)
		if ahead := n - now; err != nil || ahead < -10_000_000 || ahead > 10_000_000 {
			return fmt.Sprintf("now%+d", ahead)
		}
		return "now"
	})
}

// Each script is called once for each name in some state, and once for all names
// in these states: the answers are the same, and so is what is stored.
func TestABunchIsItsCallsOneAfterAnother(t *testing.T) {
	t.Parallel()
	owner, other := strings.Repeat("x", 22), strings.Repeat("y", 22)
	states := []struct{ lease, mark string }{
		{"", ""},
		{"-" + other + "|5|t|l", "5"},
		{"-" + owner + "|NOW+0|t|l", "NOW+0"},
		{"-" + owner + "|NOW+20|t|l", "NOW+20"},
		{"+" + owner + "|7|t|l", "7"},
		{"~foreign", ""},
		{"", "NOW+20"},
		{"", "NOW+3000"},
		{"", "7|8"},
		{"", "NOW+20|8"},
		{"list", ""},
		{"", "list"},
		{"-" + owner + "|7|t|l", "list"},
		{"", ""},
	}
	for _, tc := range []struct {
		script string
		keys   int
		args   []string
	}{
		{"release", 1, []string{"-" + owner + "|"}},
		{"renew", 2, []string{owner, "20000", "NOW+30"}},
		{"renew", 2, []string{owner, "20000", "NOW+9000"}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l"}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "NOW+30", "", ""}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "NOW+9000", "", ""}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "", "NOW+40", "0"}},
		{"acquire", 2, []string{"-" + owner + "|", "20000", "t|l", "1", "NOW+90", "100000000"}},
	} {
		t.Run(tc.script+strings.Join(tc.args[1:], " "), func(t *testing.T) {
			t.Parallel()
			l := newLua(t)
			at := func(s string) string { // NOW+20 is 20 s ahead
				before, seconds, found := strings.Cut(s, "NOW+")
				if !found {
					return s
				}
				seconds, after, _ := strings.Cut(seconds, "|")
				n, err := strconv.ParseInt(seconds, 10, 64)
				require.NoError(t, err)
				return strings.TrimSuffix(before+strconv.FormatInt(l.now+n*1_000_000, 10)+"|"+after, "|")
			}
			put := func(key, v string) {
				switch v {
				case "":
				case "list":
					require.NoError(t, l.rdb.RPush(t.Context(), key, "theirs").Err())
				default:
					l.set(key, at(v), time.Minute)
				}
			}
			name := func(kind string, i int) []string {
				k := leaseKey(fmt.Sprint(l.name, kind, i))
				return []string{k, k + ":fence"}[:tc.keys]
			}
			var args []any
			for _, a := range tc.args {
				args = append(args, at(a))
			}
			var keys []string
			var all []any
			for i, state := range states {
				for _, kind := range []string{"one", "many"} {
					k := leaseKey(fmt.Sprint(l.name, kind, i))
					put(k, state.lease)
					put(k+":fence", state.mark)
				}
				keys, all = append(keys, name("many", i)...), append(all, args...)
			}
			lines := strings.Split(l.run(tc.script, keys, all...), "\n")
			require.Len(t, lines, len(states))
			for i := range states {
				one, err := l.rdb.Eval(t.Context(), source(t, tc.script), name("one", i), args...).Text()
				if err != nil {
					one = "S"
				}
				assert.Equal(t, undated(one, l.now), undated(lines[i], l.now), "state %d", i)
				for j, key := range name("one", i) {
					twin := name("many", i)[j]
					require.Equal(t, l.rdb.Type(t.Context(), key).Val(), l.rdb.Type(t.Context(), twin).Val(), "state %d", i)
					if l.rdb.Type(t.Context(), key).Val() != "list" {
						assert.Equal(t, undated(value(t, l.rdb, key), l.now), undated(value(t, l.rdb, twin), l.now), "state %d", i)
						assert.InDelta(t, pttl(t, l.rdb, key).Seconds(), pttl(t, l.rdb, twin).Seconds(), 2, "state %d", i)
					}
				}
			}
		})
	}
}

package redisstore

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
)

// FuzzReply: no reply brings the parser down, and what it accepts is in range.
func FuzzReply(f *testing.F) {
	owner := strings.Repeat("x", ownerLen)
	for _, seed := range []string{
		"", " ", "S", "D", "N", "O", "I", "T", "R", "M 5", "P " + owner, "U 5", "U", "G 0 5", "G 1 1795966971163455", "G 1", "G", "G 5",
		"G 1795966971163455 1795966971 163455", "G 1795966971163455 1795966971 163455 1",
		"H 1000 1795966971163455 1795966971 163455 -1 - -" + owner + "|1795966971163455|00-trace|label|x",
		"H -1 0 1 2 0 1 foreign value with spaces", "H -2 0 1 2 0 1 ", "H 2e+14 0 1 2 -1 - x", "H 9223372036854775807 0 1 2 0 1 ",
		"H 1 9223372036854775807 9223372036854775807 999999 0 1 ", "H 99999999999999999999 0 1 2 0 1 x", "GG 1 2 3", "X 1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		a, err := parse(reply)
		if err != nil {
			require.LessOrEqual(t, len(err.Error()), 500, "a reply may be long")
			return
		}
		require.Contains(t, "GHTRUINSDPMO", string(a.kind))
		require.GreaterOrEqual(t, a.pttl, time.Duration(math.MinInt64))
		require.GreaterOrEqual(t, a.time, fence.Token(0))
		if a.kind == 'H' {
			held := a.held("name")
			require.GreaterOrEqual(t, held.RetryIn, time.Duration(0))
			require.LessOrEqual(t, held.RetryIn, time.Duration(1<<43)*time.Millisecond)
		}
	})
}

// FuzzValue: a lease value is ours only if the scripts could have written it.
func FuzzValue(f *testing.F) {
	owner := strings.Repeat("x", ownerLen)
	for _, seed := range []string{
		"", "-", "-" + owner, "-" + owner + "|", "-" + owner + "|1", "-" + owner + "|1|", "+" + owner + "|1795966971163455|trace|label",
		"~" + strings.Repeat(".", ownerLen) + "|5||", "-" + owner + "|0||", "-" + owner + "|-5||", "-" + owner + "|99999999999999999999||",
		"-" + owner + "|5|t|l|with|bars", " " + owner + "|5||", "-" + strings.Repeat(".", ownerLen) + "|5||", "\xff" + owner + "|5||",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		h, ok := parseValue(v)
		if !ok {
			require.Equal(t, holder{}, holder{trace: h.trace, label: h.label, token: h.token}, "nothing half taken")
			return
		}
		require.Len(t, h.owner, ownerLen)
		require.Positive(t, h.token)
		require.True(t, strings.HasPrefix(v[1:], h.owner+"|"))
		require.True(t, strings.HasSuffix(v, h.trace+"|"+h.label) || strings.HasSuffix(v, "|"+h.trace) && h.label == "")
		require.NotContains(t, h.trace, "|")
	})
}

func TestParse(t *testing.T) {
	t.Parallel()
	a, err := parse("H -1 7 5 9 0 3 a b c")
	require.NoError(t, err)
	assert.Equal(t, answer{kind: 'H', pttl: -1, mark: 7, time: 5_000_009, rank: 0, ticket: "3", value: "a b c"}, a)
	a, err = parse("H 9223372036854775807 7 5 9 0 3 ")
	require.NoError(t, err)
	assert.Positive(t, a.pttl, "cut, not overflowed")
	a, err = parse("G 64 5 9 1")
	require.NoError(t, err)
	assert.Equal(t, answer{kind: 'G', token: 64, time: 5_000_009, waiting: true}, a)
	for _, bad := range []string{"", "X", "G", "G x", "H 1", "U", "U x", "OK", "G 64 2", "G 64 2 1000000", "G 64 -2 5", "G 1 x"} {
		_, err := parse(bad)
		assert.Error(t, err, bad)
	}
}

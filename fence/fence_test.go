package fence_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
)

func TestCheckAcceptsHigherAndEqualFromTheSameOwner(t *testing.T) {
	mark := fence.Grant{Name: "n", Token: 33, Owner: "a"}
	for _, tc := range []struct {
		why             string
		seen, presented fence.Grant
		want            error
	}{
		{"first ever", fence.Grant{}, fence.Grant{Name: "n", Token: 1, Owner: "a"}, nil},
		{"same again", mark, mark, nil},
		{"one higher", mark, fence.Grant{Name: "n", Token: 34, Owner: "b"}, nil},
		{"one higher, same owner", mark, fence.Grant{Name: "n", Token: 34, Owner: "a"}, nil},
		{"largest", mark, fence.Grant{Name: "n", Token: math.MaxInt64, Owner: "b"}, nil},
		{"one lower", mark, fence.Grant{Name: "n", Token: 32, Owner: "b"}, fence.ErrStale},
		{"one lower, same owner", mark, fence.Grant{Name: "n", Token: 32, Owner: "a"}, fence.ErrStale},
		{"equal, other owner", mark, fence.Grant{Name: "n", Token: 33, Owner: "b"}, fence.ErrStale},
		{"equal, owner unknown", mark, fence.Grant{Name: "n", Token: 33}, fence.ErrStale},
		{"equal, mark without owner", fence.Grant{Token: 33}, mark, fence.ErrStale},
		{"equal, no owners kept", fence.Grant{Token: 33}, fence.Grant{Name: "n", Token: 33}, nil},
		{"no token", mark, fence.Grant{Name: "n", Owner: "a"}, fence.ErrMissing},
		{"no token, nothing seen", fence.Grant{}, fence.Grant{}, fence.ErrMissing},
		{"negative", fence.Grant{Token: math.MinInt64}, fence.Grant{Name: "n", Token: -1}, fence.ErrMissing},
	} {
		t.Run(tc.why, func(t *testing.T) {
			err := fence.Check(tc.seen, tc.presented)
			if tc.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tc.want)
			if stale, ok := errors.AsType[*fence.StaleError](err); ok {
				assert.Equal(t, fence.StaleError{Name: "n", Presented: tc.presented.Token, Seen: tc.seen.Token}, *stale)
				assert.Equal(t, "fence_stale", stale.ErrorType())
			}
		})
	}
}

func TestStaleErrorsTellWhatWasRefusedAndNeverTheOwner(t *testing.T) {
	seen := fence.Grant{Name: "order/42", Token: 34, Owner: "secret-b"}
	lower := fence.Check(seen, fence.Grant{Name: "order/42", Token: 33, Owner: "secret-a"})
	equal := fence.Check(seen, fence.Grant{Name: "order/42", Token: 34, Owner: "secret-a"})

	assert.EqualError(t, lower, `fence: token 33 of "order/42" is stale: 34 was seen`)
	assert.EqualError(t, equal, `fence: token 34 of "order/42" was seen from another owner`)
	for _, err := range []error{lower, equal} {
		assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "secret")
		assert.NotErrorIs(t, err, fence.ErrMissing)
	}
}

func TestPrintedGrantLeavesOutTheOwner(t *testing.T) {
	g := fence.Grant{Name: "order/42", Token: 33, Owner: "secret"}
	for _, verb := range []string{"%v", "%+v", "%s", "%q"} {
		out := fmt.Sprintf(verb, g)
		assert.NotContains(t, out, "secret", verb)
		assert.Contains(t, out, "order/42#33", verb)
	}
}

func TestTokenIsAPlainNumberOnTheWire(t *testing.T) {
	const largest fence.Token = 1<<53 - 1
	out, err := json.Marshal(largest)
	require.NoError(t, err)
	assert.Equal(t, "9007199254740991", string(out))
	assert.Equal(t, largest, fence.Token(float64(largest)))
}

// Whatever comes in whatever order: the tokens let in for a name never fall, and
// an equal one is let in only for the owner who had it.
func FuzzGateNeverLetsTokensFall(f *testing.F) {
	f.Add([]byte{1, 5, 0, 1, 5, 1, 1, 4, 0, 1, 6, 1})
	f.Add([]byte{1, 5, 0, 2, 5, 1, 1, 0, 0, 2, 5, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		var gate fence.Gate
		marks := map[string]fence.Grant{}
		for ; len(in) >= 3; in = in[3:] {
			g := fence.Grant{
				Name:  string('a' + rune(in[0]%3)),
				Token: fence.Token(int8(in[1])),
				Owner: string('A' + rune(in[2]%3)),
			}
			mark, err := marks[g.Name], gate.Raise(fence.NewContext(t.Context(), g, nil))
			switch {
			case g.Token <= 0:
				require.ErrorIs(t, err, fence.ErrMissing)
			case g.Token > mark.Token || g == mark:
				require.NoError(t, err)
				marks[g.Name] = g
			default:
				require.ErrorIs(t, err, fence.ErrStale)
			}
		}
	})
}

package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

func TestNamesReadWellAndNeverCollide(t *testing.T) {
	g := newGuard(t, memstore.New())
	orders := guard.Must(g.Class("order"))
	for want, n := range map[string]guard.Name{
		"order/42":    orders.Name("42"),
		"a%2Fb/c":     g.Name("a/b", "c"),
		"a/b%2Fc":     g.Name("a", "b/c"),
		"%7Ba%7Db":    g.Name("{a}b"),
		"%7D%7B":      g.Name("}{"),
		"a%00b%0D%0A": g.Name("a\x00b\r\n"),
		"%FF":         g.Name("\xff"),
		"a b":         g.Name("a b"),
		"100%25":      g.Name("100%"),
		"größe/日本/🔒":  g.Name("größe", "日本", "🔒"),
		"a:fence":     g.Name("a:fence"),
		"%C2%85":      g.Name("\u0085"),
		"A":           g.Name("A"),
	} {
		assert.Equal(t, want, n.String())
	}
	assert.Equal(t, g.Name("order", "42").String(), orders.Name("42").String(), "a label is the first part")
}

// unescape is the inverse of the escaping; that it exists makes the escaping
// injective.
func unescape(t *testing.T, s string) (parts []string) {
	for part := range strings.SplitSeq(s, "/") {
		var b []byte
		for i := 0; i < len(part); i++ {
			if part[i] != '%' {
				b = append(b, part[i])
				continue
			}
			require.Less(t, i+2, len(part))
			const hex = "0123456789ABCDEF"
			hi, lo := strings.IndexByte(hex, part[i+1]), strings.IndexByte(hex, part[i+2])
			require.True(t, hi >= 0 && lo >= 0, "%q", part)
			b = append(b, byte(hi<<4|lo))
			i += 2
		}
		parts = append(parts, string(b))
	}
	return parts
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "a/b", "{}", "}{", "%", "%2F", "\x00\xff", "ä{", "a\u0085"} {
		f.Add(s, s+"x")
	}
	g := guard.Must(guard.New(memstore.New()))
	f.Fuzz(func(t *testing.T, a, b string) {
		n := g.Name(a, b)
		if a == "" || b == "" || n.String() == "" || len(n.String()) > 512 {
			err := guard.Do(context.Background(), n, nothing)
			if !errors.Is(err, guard.ErrInvalid) {
				t.Fatalf("Name(%q, %q): %v", a, b, err)
			}
			return
		}
		if strings.ContainsAny(n.String(), "{}\x00\r\n") {
			t.Fatalf("%q has a brace or a control byte", n.String())
		}
		assert.Equal(t, []string{a, b}, unescape(t, n.String()))
	})
}

package httpguard

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// quote writes s as a structured-field string, or as a display string if it is
// not printable ASCII.
func quote(s string) string {
	var plain, display strings.Builder
	ascii := true
	for _, c := range []byte(s) {
		if c == '"' || c == '\\' {
			plain.WriteByte('\\')
		}
		plain.WriteByte(c)
		if c < ' ' || c > '~' {
			ascii = false
		}
		if c < ' ' || c > '~' || c == '%' || c == '"' {
			fmt.Fprintf(&display, "%%%02x", c)
		} else {
			display.WriteByte(c)
		}
	}
	if ascii {
		return `"` + plain.String() + `"`
	}
	return `%"` + display.String() + `"`
}

// item reads a structured-field item with parameters. bad is sticky.
type item struct {
	rest string
	bad  bool
}

func (p *item) eat(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// next goes to the next parameter.
func (p *item) next() bool {
	if p.bad || !p.eat(';') {
		return false
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	return true
}

func (p *item) key() string {
	n := 0
	for n < len(p.rest) && isKey(p.rest[n], n == 0) {
		n++
	}
	p.bad = p.bad || n == 0
	key := p.rest[:n]
	p.rest = p.rest[n:]
	return key
}

func isKey(c byte, first bool) bool {
	if 'a' <= c && c <= 'z' || c == '*' {
		return true
	}
	return !first && ('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')
}

// value reads a parameter's value. Those of other types than ours are passed
// over, they belong to parameters that are not ours.
func (p *item) value() string {
	switch {
	case strings.HasPrefix(p.rest, `"`):
		return p.str()
	case strings.HasPrefix(p.rest, `%"`):
		return p.display()
	}
	n := strings.IndexByte(p.rest, ';')
	if n < 0 {
		n = len(p.rest)
	}
	p.bad = p.bad || n == 0 || strings.ContainsAny(p.rest[:n], "\" ,")
	p.rest = p.rest[n:]
	return ""
}

// str reads a string.
func (p *item) str() string {
	var b strings.Builder
	for open := p.eat('"'); open && p.rest != ""; {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return b.String()
		case c < ' ' || c > '~':
			open = false
		case c == '\\':
			if p.rest == "" || (p.rest[0] != '"' && p.rest[0] != '\\') {
				open = false
				break
			}
			c = p.rest[0]
			p.rest = p.rest[1:]
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	p.bad = true
	return ""
}

// display reads a display string: a string of UTF-8 whose bytes are
// percent-encoded, in lower case, where they are not printable ASCII.
func (p *item) display() string {
	p.rest = p.rest[1:]
	end := strings.IndexByte(p.rest[1:], '"') + 1
	raw := p.rest[1:max(end, 1)]
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c < ' ' || c > '~':
			p.bad = true
		case c == '%':
			n, err := strconv.ParseUint(raw[i+1:min(i+3, len(raw))], 16, 8)
			p.bad = p.bad || err != nil || i+3 > len(raw) || strings.ToLower(raw[i+1:i+3]) != raw[i+1:i+3]
			c = byte(n)
			i += 2
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	p.bad = p.bad || end == 0 || !utf8.ValidString(b.String())
	p.rest = p.rest[end+1:]
	return b.String()
}

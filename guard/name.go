package guard

import (
	"strings"
	"time"
	"unicode/utf8"
)

// maxName is the length of an escaped name in bytes.
const maxName = 512

// Name is a lock's name, bound to the Guard and the policy it was made with. It
// is a plain value, safe to copy and to use from many goroutines; make one per
// call or keep it. A name made of bad parts is reported by the verb that uses
// it, as [ErrInvalid], before any command is sent; so is the zero Name.
type Name struct {
	class *Class
	name  string
	wait  time.Duration // what Name.Wait asked for, -1 for nothing
	err   error
}

// String returns the escaped name: the parts joined by "/", with the bytes "%",
// "/", "{", "}", control characters and invalid UTF-8 in a part written as %XX.
// Different parts never give the same name: ("a/b", "c") and ("a", "b/c")
// differ. Redis keys carry it between braces, so everything that belongs to one
// name lies in one Cluster slot.
func (n Name) String() string { return n.name }

// Wait returns a copy of n that waits at most d, and never longer than n does.
// 0 or less means not to wait at all.
func (n Name) Wait(d time.Duration) Name {
	d = max(d, 0)
	if n.wait < 0 || d < n.wait {
		n.wait = d
	}
	return n
}

// waits is the wait limit in force, -1 for none.
func (n Name) waits() time.Duration {
	w := n.class.policy.wait
	if n.wait >= 0 && (w < 0 || n.wait < w) {
		return n.wait
	}
	return w
}

// check reports what is wrong with n itself.
func (n Name) check() error {
	if n.class == nil {
		return invalid("the zero Name; make names with Guard.Name or Class.Name")
	}
	return n.err
}

func (c *Class) newName(label string, parts []string) Name {
	n := Name{class: c, wait: -1}
	if len(parts) == 0 {
		n.err = invalid("a name without parts")
		return n
	}
	if label == "" && len(parts) == 1 && parts[0] != "" && len(parts[0]) <= maxName && plain(parts[0]) {
		n.name = parts[0]
		return n
	}
	var b strings.Builder
	if label != "" {
		escapePart(&b, label)
	}
	for i, part := range parts {
		if part == "" {
			n.err = invalid("part %d of a name is empty", i+1)
		}
		if b.Len() > 0 || i > 0 {
			b.WriteByte('/')
		}
		if len(part) > maxName {
			n.err = invalid("part %d of a name has %d bytes; a name has at most %d", i+1, len(part), maxName)
			return n
		}
		escapePart(&b, part)
	}
	n.name = b.String()
	if len(n.name) > maxName && n.err == nil {
		n.err = invalid("a name of %d bytes after escaping; at most %d", len(n.name), maxName)
	}
	return n
}

// escapePart keeps what people read and what Redis can hash: braces would move
// the hash tag, "/" separates parts, and the rest would break logs and labels.
func escapePart(b *strings.Builder, part string) {
	if plain(part) {
		b.WriteString(part)
		return
	}
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(part); {
		r, size := utf8.DecodeRuneInString(part[i:])
		if (r == utf8.RuneError && size == 1) || special(r) {
			for _, c := range []byte(part[i : i+size]) {
				b.Write([]byte{'%', hex[c>>4], hex[c&15]})
			}
		} else {
			b.WriteString(part[i : i+size])
		}
		i += size
	}
}

func plain(part string) bool {
	for i := range len(part) {
		if c := part[i]; c >= utf8.RuneSelf || special(rune(c)) {
			return false
		}
	}
	return true
}

func special(r rune) bool {
	return r < ' ' || (r >= 0x7f && r < 0xa0) || r == '%' || r == '/' || r == '{' || r == '}'
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || (r >= 0x7f && r < 0xa0) }) || !utf8.ValidString(s)
}

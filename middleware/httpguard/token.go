package httpguard

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/fence"
)

const tokenHeader = "Fencing-Token"

// Present adds g to the headers of an outgoing request, so that the service
// behind it can fence its own storage:
//
//	Fencing-Token: "1795972800000000";name="order/42";holder="3q2-7wSZ…"
//
// The token is a structured-field string, since an integer there ends at 15
// digits; a name that is not ASCII is a display string. holder tells apart two
// holders with one token; it is a hash of g.Owner, which stays secret. A Grant
// without a token removes the header.
//
// Source: RFC 9651, https://www.rfc-editor.org/rfc/rfc9651
func Present(h http.Header, g fence.Grant) {
	if g.Token <= 0 {
		h.Del(tokenHeader)
		return
	}
	v := fmt.Sprintf(`"%d";name=%s`, g.Token, quote(g.Name))
	if g.Owner != "" {
		sum := sha256.Sum256([]byte(g.Owner))
		v += ";holder=" + quote(base64.RawURLEncoding.EncodeToString(sum[:16]))
	}
	h.Set(tokenHeader, v)
}

// Presented is the grant that a client sent with [Present]. Give it to
// fence.Check, or with fence.NewContext to a storage, and what comes back to
// [Error]. The Owner is the holder as sent. The error matches [ErrBadRequest] if
// the header is unreadable or there more than once, and fence.ErrMissing as well
// if it is not there.
//
// Believe it only from clients that are authenticated and allowed to hold the
// lock of that name: a storage that has accepted a token refuses all lower ones,
// so one made-up high token locks every holder out.
func Presented(h http.Header) (fence.Grant, error) {
	switch values := h[tokenHeader]; len(values) {
	case 0:
		return fence.Grant{}, fmt.Errorf("%w (%w)", lacks("the header %q is missing", tokenHeader), fence.ErrMissing)
	case 1:
		if g, ok := parseToken(values[0]); ok {
			return g, nil
		}
		return fence.Grant{}, lacks("the header %q is malformed", tokenHeader)
	default:
		return fence.Grant{}, lacks("the header %q has %d values", tokenHeader, len(values))
	}
}

// maxToken is the highest token there is, see fence.Token.
const maxToken = 1<<53 - 1

func parseToken(s string) (g fence.Grant, ok bool) {
	p := &item{rest: s}
	digits := p.str()
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || n > maxToken || digits[0] == '0' {
		return g, false
	}
	g.Token = fence.Token(n)
	for p.next() {
		key := p.key()
		value := ""
		if p.eat('=') {
			value = p.value()
		}
		switch key {
		case "name":
			g.Name = value
		case "holder":
			g.Owner = value
		}
	}
	return g, !p.bad && p.rest == "" && g.Name != ""
}

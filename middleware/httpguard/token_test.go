package httpguard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/middleware/httpguard"
)

const owner = "ownerownerownerowner22"

func sent(t *testing.T, g fence.Grant) (string, http.Header) {
	t.Helper()
	h := http.Header{}
	httpguard.Present(h, g)
	require.Len(t, h, 1)
	return h.Get("Fencing-Token"), h
}

func TestATokenIsSentAsAStructuredField(t *testing.T) {
	for _, tc := range []struct {
		grant fence.Grant
		want  string
	}{
		{fence.Grant{Name: "order/42", Token: 1}, `"1";name="order/42"`},
		{fence.Grant{Name: "order/42", Token: 1<<53 - 1, Owner: owner}, `"9007199254740991";name="order/42";holder="A-QV1DlLKUhuCuOMUVdgow"`},
		{fence.Grant{Name: `a"b\c;d`, Token: 7}, `"7";name="a\"b\\c;d"`},
		{fence.Grant{Name: "order/é%2F", Token: 7}, `"7";name=%"order/%c3%a9%252F"`},
	} {
		v, h := sent(t, tc.grant)
		assert.Equal(t, tc.want, v)
		got, err := httpguard.Presented(h)
		require.NoError(t, err)
		assert.Equal(t, tc.grant.Name, got.Name)
		assert.Equal(t, tc.grant.Token, got.Token)
		assert.Equal(t, tc.grant.Owner == "", got.Owner == "")
	}
}

func TestTheOwnerOfATokenIsNotSentAndStillTellsHoldersApart(t *testing.T) {
	v, h := sent(t, fence.Grant{Name: "order/42", Token: 5, Owner: owner})
	assert.NotContains(t, v, owner)
	one, err := httpguard.Presented(h)
	require.NoError(t, err)
	_, h = sent(t, fence.Grant{Name: "order/42", Token: 5, Owner: "other" + owner[5:]})
	other, err := httpguard.Presented(h)
	require.NoError(t, err)
	assert.NoError(t, fence.Check(one, one))
	assert.ErrorIs(t, fence.Check(one, other), fence.ErrStale)
}

func TestNoTokenRemovesTheHeader(t *testing.T) {
	_, h := sent(t, fence.Grant{Name: "order/42", Token: 5})
	httpguard.Present(h, fence.Grant{Name: "order/42"})
	assert.Empty(t, h)
	_, err := httpguard.Presented(h)
	assert.ErrorIs(t, err, fence.ErrMissing)
	assert.ErrorIs(t, err, httpguard.ErrBadRequest)
}

func TestOtherParametersOfATokenArePassedOver(t *testing.T) {
	for _, v := range []string{
		`"5";name="x";zone=7;flag;h=:YWJj:;when=@17;q=%"%c3%a9"`,
		`"5";zone=a;name="y"; name="x"`,
	} {
		g, err := httpguard.Presented(http.Header{"Fencing-Token": {v}})
		require.NoError(t, err, v)
		assert.Equal(t, fence.Grant{Name: "x", Token: 5}, g)
	}
}

func TestUnreadableTokensAreRefused(t *testing.T) {
	for _, v := range []string{
		``, `5`, `"5"`, `"5";name=""`, `"5";name=x`, `"5";name`, `"0";name="x"`, `"-5";name="x"`, `"+5";name="x"`, `"05";name="x"`,
		`"9007199254740992";name="x"`, `"99999999999999999999";name="x"`, `"5;name="x"`, `"5";name="x`, `"5";name="x"y`, `"5";name="x";`,
		`"5";name="x";=1`, `"5";name="x";a=`, `"5";name="x";A=1`, `"5";name="\x"`, `"5";name="x\`, "\"5\";name=\"\x01\"", `"5";name="é"`,
		`"5";name=%"x`, `"5";name=%"%c"`, `"5";name=%"%C3%A9"`, `"5";name=%"%zz"`, `"5";name=%"%ff"`, `"5";name=%"é"`, `"5" ;name="x"`,
		`"5";name="x", "6";name="x"`, `"5";name=%`, `%"5";name="x"`,
	} {
		_, err := httpguard.Presented(http.Header{"Fencing-Token": {v}})
		assert.ErrorIs(t, err, httpguard.ErrBadRequest, v)
		assert.NotErrorIs(t, err, fence.ErrMissing, v)
	}
	_, err := httpguard.Presented(http.Header{"Fencing-Token": {`"5";name="x"`, `"6";name="x"`}})
	assert.ErrorIs(t, err, httpguard.ErrBadRequest)
}

func FuzzPresented(f *testing.F) {
	for _, v := range []string{`"5";name="x"`, `"5";name=%"%c3%a9";holder="h"`, `"5";name="a\"b";q=1`, `%"`, `"`} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		g, err := httpguard.Presented(http.Header{"Fencing-Token": {v}})
		if err != nil {
			require.Zero(t, g)
			return
		}
		require.Positive(t, g.Token)
		require.NotEmpty(t, g.Name)
		require.True(t, utf8.ValidString(g.Name))
		h := http.Header{}
		httpguard.Present(h, g)
		again, err := httpguard.Presented(h)
		require.NoError(t, err)
		require.Equal(t, g.Name, again.Name)
		require.Equal(t, g.Token, again.Token)
	})
}

func FuzzPresent(f *testing.F) {
	f.Add("order/42", int64(5), owner)
	f.Add(`é"\%`, int64(1), "")
	f.Fuzz(func(t *testing.T, part string, token int64, owner string) {
		if part == "" || len(part) > 100 || token <= 0 || token >= 1<<53 {
			return
		}
		l := newLocks(t)
		name := l.class.Name(part).String()
		v, h := sent(t, fence.Grant{Name: name, Token: fence.Token(token), Owner: owner})
		require.False(t, strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }), "%q", v)
		g, err := httpguard.Presented(h)
		require.NoError(t, err, v)
		require.Equal(t, name, g.Name)
		require.Equal(t, fence.Token(token), g.Token)
	})
}

// A service that is called under a lock fences its own storage.
func TestAStaleTokenOfAClientIsAnsweredWith412(t *testing.T) {
	var gate fence.Gate
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, err := httpguard.Presented(r.Header)
		if err == nil {
			err = gate.Raise(fence.NewContext(r.Context(), g, nil))
		}
		if err != nil {
			httpguard.Error(w, r, err)
		}
	})
	call := func(ctx context.Context) int {
		r := get(ctx, "/")
		if g, err := fence.Require(ctx); err == nil {
			httpguard.Present(r.Header, g)
		}
		w, _ := serve(service, r)
		return w.Code
	}
	l := newLocks(t)
	var late context.Context
	for range 2 {
		require.NoError(t, guard.Do(t.Context(), l.class.Name("42"), func(ctx context.Context) error {
			assert.Equal(t, 200, call(ctx))
			assert.Equal(t, 200, call(ctx), "as often as it likes")
			if late == nil {
				late = context.WithoutCancel(ctx)
			}
			return nil
		}))
	}
	assert.Equal(t, 412, call(late))
	assert.Equal(t, 400, call(t.Context()), "no token")
}

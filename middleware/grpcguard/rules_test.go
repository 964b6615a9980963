package grpcguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/middleware/grpcguard"
)

func orders(t *testing.T, ps ...guard.Policy) *guard.Class {
	t.Helper()
	locks, err := guard.New(memstore.New())
	require.NoError(t, err)
	c, err := locks.Class("order", ps...)
	require.NoError(t, err)
	return c
}

func named[Req any](n guard.Name) func(context.Context, Req) (guard.Name, error) {
	return func(context.Context, Req) (guard.Name, error) { return n, nil }
}

func TestNewRefusesBadRules(t *testing.T) {
	c := orders(t)
	type notProto struct{}
	for _, tc := range []struct {
		says string // "" for fine
		rule grpcguard.Rule
	}{
		{"", grpcguard.Field(unary, c, "payload.body")},
		{"", grpcguard.Field(unary, c, "payload.body", "response_type", "response_size", "response_status.message")},
		{"", grpcguard.Field("/unknown.Service/Method", c, "some.path")},
		{"", grpcguard.Field("/unknown/Method", c, "id")},
		{"", grpcguard.Metadata(unary, c, "X-Order.id_1-bin")},
		{"", grpcguard.Metadata(unary, c, "order").MaxWait(0)},
		{"", grpcguard.Method(unary, named[*testpb.SimpleRequest](c.Name("7")))},
		{"", grpcguard.Method(unary, named[proto.Message](c.Name("7")))},
		{"", grpcguard.Method(unary, named[any](c.Name("7")))},
		{"", grpcguard.Method(unary, named[interface{ GetPayload() *testpb.Payload }](c.Name("7")))},

		{`full method ""`, grpcguard.Metadata("", c, "order")},
		{`full method "/"`, grpcguard.Metadata("/", c, "order")},
		{`full method "//"`, grpcguard.Metadata("//", c, "order")},
		{`full method "grpc.testing.TestService/UnaryCall"`, grpcguard.Metadata("grpc.testing.TestService/UnaryCall", c, "order")},
		{`full method "/UnaryCall"`, grpcguard.Metadata("/UnaryCall", c, "order")},
		{`full method "/grpc.testing.TestService/"`, grpcguard.Metadata("/grpc.testing.TestService/", c, "order")},
		{`full method "//UnaryCall"`, grpcguard.Metadata("//UnaryCall", c, "order")},
		{`full method "/a/b/c"`, grpcguard.Metadata("/a/b/c", c, "order")},
		{"no such method", grpcguard.Metadata("/grpc.testing.TestService/UnaryCal", c, "order")},
		{"no such method", grpcguard.Metadata("/grpc.testing.SimpleRequest/UnaryCall", c, "order")},

		{"class is nil", grpcguard.Metadata(unary, nil, "order")},
		{"class is nil", grpcguard.Metadata(unary, &guard.Class{}, "order")},
		{"class is nil", grpcguard.Field(unary, nil, "payload.body")},
		{"no metadata keys", grpcguard.Metadata(unary, c)},
		{`"" is no metadata key`, grpcguard.Metadata(unary, c, "")},
		{`":authority" is no metadata key`, grpcguard.Metadata(unary, c, ":authority")},
		{"no field paths", grpcguard.Field(unary, c)},
		{`"" is no path`, grpcguard.Field(unary, c, "")},
		{`"payload." is no path`, grpcguard.Field(unary, c, "payload.")},
		{`".body" is no path`, grpcguard.Field(unary, c, ".body")},
		{`has no field "nody"`, grpcguard.Field(unary, c, "payload.nody")},
		{`"payload" cannot be`, grpcguard.Field(unary, c, "payload")},
		{`"body" cannot be`, grpcguard.Field(unary, c, "payload.body.more")},
		{`"fill_username" cannot be`, grpcguard.Field(unary, c, "fill_username")},
		{`"response_parameters" cannot be`, grpcguard.Field(download, c, "response_parameters.size")},
		{"function is nil", grpcguard.Method[*testpb.SimpleRequest](unary, nil)},
		{"request is a *grpc_testing.SimpleRequest, the rule is for a *grpc_testing.Empty", grpcguard.Method(unary, named[*testpb.Empty](c.Name("7")))},
		{"the rule is for a interface { GetBody() []uint8 }", grpcguard.Method(unary, named[interface{ GetBody() []byte }](c.Name("7")))},
		{"MaxWait(-1ns)", grpcguard.Metadata(unary, c, "order").MaxWait(-1)},
		{"zero Rule", grpcguard.Rule{}},

		// A message of another codec, for all New knows.
		{"", grpcguard.Method(unary, named[*notProto](c.Name("7")))},
	} {
		t.Run(tc.says, func(t *testing.T) {
			g, err := grpcguard.New(tc.rule)
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, guard.ErrInvalid)
			assert.Nil(t, g)
			assert.Contains(t, err.Error(), tc.says)
			assert.True(t, strings.HasPrefix(err.Error(), "grpcguard: "), err.Error())
		})
	}
}

func TestNewNamesEveryBadRule(t *testing.T) {
	c := orders(t)
	_, err := grpcguard.New(grpcguard.Metadata(unary, c), grpcguard.Metadata(duplex, nil, "order"),
		grpcguard.Metadata(upload, c, "order"), grpcguard.Field(upload, c, "payload.body"))
	require.ErrorIs(t, err, guard.ErrInvalid)
	for _, part := range []string{unary + ": no metadata keys", duplex + ": the class is nil", upload + " is listed twice"} {
		assert.Contains(t, err.Error(), part)
	}
	_, err = grpcguard.New()
	require.ErrorIs(t, err, guard.ErrInvalid)
}

// ask calls a unary method without a network and tells under which names it was
// run.
func ask(ctx context.Context, t *testing.T, method string, req any, rule grpcguard.Rule) (lock string, err error) {
	t.Helper()
	g, err := grpcguard.New(rule)
	require.NoError(t, err)
	g.StreamServer()
	_, err = g.UnaryServer()(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, got any) (any, error) {
		assert.Equal(t, req, got)
		lock = held(ctx)
		return nil, nil
	})
	return lock, err
}

const plain = "/unknown.Service/Method"

func TestFieldsNameTheLock(t *testing.T) {
	c := orders(t)
	for _, tc := range []struct {
		req   proto.Message
		paths []string
		want  string // "" for INVALID_ARGUMENT
	}{
		{wrapperspb.String("7"), []string{"value"}, "order/7"},
		{wrapperspb.String("a/b{}"), []string{"value"}, "order/a%2Fb%7B%7D"},
		{wrapperspb.String(""), []string{"value"}, ""},
		{wrapperspb.String(strings.Repeat("x", 506)), []string{"value"}, "order/" + strings.Repeat("x", 506)},
		{wrapperspb.String(strings.Repeat("x", 507)), []string{"value"}, ""},
		{wrapperspb.String(strings.Repeat("x", 10_000)), []string{"value"}, ""},
		{wrapperspb.Bytes([]byte{'a', 0xff}), []string{"value"}, "order/a%FF"},
		{wrapperspb.Bytes(nil), []string{"value"}, ""},
		{wrapperspb.Int64(-7), []string{"value"}, "order/-7"},
		{wrapperspb.UInt64(1<<64 - 1), []string{"value"}, "order/18446744073709551615"},
		{wrapperspb.Int32(0), []string{"value"}, ""},
		// Explicit presence: a 0 that was set is a 0.
		{&descriptorpb.EnumValueDescriptorProto{Number: proto.Int32(0)}, []string{"number"}, "order/0"},
		{&descriptorpb.EnumValueDescriptorProto{}, []string{"number"}, ""},
		{&descriptorpb.EnumValueDescriptorProto{Name: new("")}, []string{"name"}, ""},
		{&descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()}, []string{"label"}, "order/3"},
		{
			&testpb.SimpleRequest{ResponseSize: 3, Payload: &testpb.Payload{Body: []byte("b")}},
			[]string{"response_size", "payload.body"}, "order/3/b",
		},
		{&testpb.SimpleRequest{ResponseSize: 3}, []string{"response_size", "payload.body"}, ""},
		{&testpb.SimpleRequest{Payload: &testpb.Payload{}}, []string{"payload.body"}, ""},
	} {
		lock, err := ask(t.Context(), t, plain, tc.req, grpcguard.Field(plain, c, tc.paths...))
		assert.Equal(t, tc.want, lock)
		if tc.want == "" {
			assert.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
		} else {
			assert.NoError(t, err)
		}
	}
}

func TestFieldRuleThatDoesNotFitTheRequestFailsClosed(t *testing.T) {
	c := orders(t)
	for _, tc := range []struct {
		req  any
		path string
	}{
		{wrapperspb.String("7"), "valeu"},
		{wrapperspb.String("7"), "value.more"},
		{wrapperspb.Bool(true), "value"},
		{wrapperspb.Double(1), "value"},
		{&testpb.SimpleRequest{Payload: &testpb.Payload{}}, "payload"},
		{&testpb.StreamingOutputCallRequest{}, "response_parameters"},
		{"no message", "value"},
		{nil, "value"},
	} {
		lock, err := ask(t.Context(), t, plain, tc.req, grpcguard.Field(plain, c, tc.path))
		assert.Empty(t, lock)
		want{code: codes.Internal, reason: "INVALID"}.check(t, err, nil)
		assert.ErrorIs(t, err, guard.ErrInvalid)
	}
}

func TestMetadataNamesTheLock(t *testing.T) {
	c := orders(t)
	for _, tc := range []struct {
		pairs []string
		want  string
		says  string
	}{
		{[]string{"tenant", "acme", "order", "7"}, "order/acme/7", ""},
		{[]string{"TENANT", "acme", "Order", "7"}, "order/acme/7", ""},
		{[]string{"tenant", "a/b", "order", "7"}, "order/a%2Fb/7", ""},
		{[]string{"tenant", "acme"}, "", `the metadata key "order" is missing or empty`},
		{[]string{"tenant", "acme", "order", ""}, "", `the metadata key "order" is missing or empty`},
		{[]string{"tenant", "acme", "order", "7", "order", "8"}, "", `the metadata key "order" has 2 values`},
		{[]string{"tenant", "acme", "order", strings.Repeat("x", 600)}, "", "the lock key is empty or too long"},
		{nil, "", `the metadata key "tenant" is missing or empty`},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(tc.pairs...))
		lock, err := ask(ctx, t, plain, nil, grpcguard.Metadata(plain, c, "Tenant", "order"))
		assert.Equal(t, tc.want, lock)
		if tc.says != "" {
			want{code: codes.InvalidArgument, reason: "INVALID", message: tc.says}.check(t, err, nil)
		}
	}
}

func TestFunctionOfTheRequestNamesTheLock(t *testing.T) {
	c := orders(t)
	denied := status.Error(codes.PermissionDenied, "not yours")
	for _, tc := range []struct {
		name string
		fn   func(context.Context, *testpb.SimpleRequest) (guard.Name, error)
		lock string
		want want
	}{
		{"a name", func(_ context.Context, in *testpb.SimpleRequest) (guard.Name, error) {
			return c.Name(string(in.GetPayload().GetBody())), nil
		}, lockName, want{}},
		{
			"an error", func(context.Context, *testpb.SimpleRequest) (guard.Name, error) {
				return guard.Name{}, errors.New("secret")
			},
			"", want{code: codes.InvalidArgument, reason: "INVALID", message: "the call has no usable lock key"},
		},
		{
			"a status", func(context.Context, *testpb.SimpleRequest) (guard.Name, error) { return guard.Name{}, denied },
			"", want{code: codes.PermissionDenied, message: "not yours"},
		},
		{
			"an error of another lock", func(context.Context, *testpb.SimpleRequest) (guard.Name, error) { return guard.Name{}, guard.ErrHeld },
			"", want{code: codes.InvalidArgument, reason: "INVALID", message: "the call has no usable lock key"},
		},
		{"no part", named[*testpb.SimpleRequest](c.Name()), "", want{code: codes.InvalidArgument, reason: "INVALID"}},
		{"an empty part", named[*testpb.SimpleRequest](c.Name("a", "", "b")), "", want{code: codes.InvalidArgument, reason: "INVALID"}},
		{"an empty last part", named[*testpb.SimpleRequest](c.Name("a", "")), "", want{code: codes.InvalidArgument, reason: "INVALID"}},
		{"a long name", named[*testpb.SimpleRequest](c.Name(strings.Repeat("x", 507))), "", want{code: codes.InvalidArgument, reason: "INVALID"}},
		{"the zero name", named[*testpb.SimpleRequest](guard.Name{}), "", want{code: codes.Internal, reason: "INVALID"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lock, err := ask(t.Context(), t, unary, request(unary, "7"), grpcguard.Method(unary, tc.fn))
			assert.Equal(t, tc.lock, lock)
			tc.want.check(t, err, nil)
		})
	}
}

func TestNameFunctionThatMeetsTheEndOfTheCallIsNoBadKey(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := ask(ctx, t, unary, request(unary, "7"), grpcguard.Method(unary, func(ctx context.Context, _ *testpb.SimpleRequest) (guard.Name, error) {
		cancel()
		return guard.Name{}, ctx.Err()
	}))
	assert.Equal(t, codes.Canceled, status.Code(err))
}

func TestRequestOfAnotherTypeFailsClosed(t *testing.T) {
	c := orders(t)
	lock, err := ask(t.Context(), t, plain, wrapperspb.String("7"), grpcguard.Method(plain, named[*testpb.SimpleRequest](c.Name("7"))))
	assert.Empty(t, lock)
	want{code: codes.Internal, reason: "INVALID"}.check(t, err, nil)
}

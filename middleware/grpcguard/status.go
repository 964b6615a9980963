package grpcguard

import (
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-go/holdfast/guard"
)

const domain = "github.com/holdfast-go/holdfast"

// verdict is a status without what belongs to one call.
type verdict struct {
	code   codes.Code
	reason string
	text   string
}

const (
	mayRetry = "; the call did not run and may be sent again"
	unknown  = "; the call ran and its outcome is unknown"
	noKey    = "the call has no usable lock key"
	server   = "the server cannot process this call"
)

var (
	contended     = verdict{codes.Aborted, "CONTENDED", "another call holds the lock" + mayRetry}
	unavailable   = verdict{codes.Unavailable, "UNAVAILABLE", "the lock service was not reached" + mayRetry}
	closed        = verdict{codes.Unavailable, "CLOSED", "the server is shutting down" + mayRetry}
	badKey        = verdict{codes.InvalidArgument, "INVALID", noKey}
	nested        = verdict{codes.Internal, "NESTED", server}
	unsupported   = verdict{codes.Internal, "UNSUPPORTED", server}
	misconfigured = verdict{codes.Internal, "INVALID", server}
	other         = verdict{codes.Internal, "OTHER", server}
	missing       = verdict{codes.Internal, "OTHER", "the call ran without a fencing token"}
	lost          = verdict{codes.Internal, "LOST", "the lock was lost" + unknown}
	staleOwn      = verdict{codes.Internal, "FENCE_STALE", "a later holder of the lock has been there" + unknown}
	staleTheirs   = verdict{codes.Aborted, "FENCE_STALE", "the fencing token presented is stale"}
)

// failure is an error with a status for the client, and the whole truth for the
// interceptors around.
type failure struct {
	status *status.Status
	err    error
}

func (f *failure) Error() string              { return f.err.Error() }
func (f *failure) Unwrap() error              { return f.err }
func (f *failure) GRPCStatus() *status.Status { return f.status }

// fail says v to the client; retryIn above 0 adds a RetryInfo.
func (v verdict) fail(err error, retryIn time.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: v.reason, Domain: domain}}
	if retryIn > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryIn)})
	}
	text := v.text
	if key, ok := errors.AsType[*keyError](err); ok {
		text = key.text
	}
	st := status.New(v.code, text)
	if full, err := st.WithDetails(details...); err == nil {
		st = full
	}
	return &failure{st, err}
}

// refusalOf is the verdict on a call that did not run.
func refusalOf(err error) verdict {
	var key *keyError
	for _, one := range []struct {
		yes bool
		verdict
	}{
		{errors.As(err, &key), badKey}, // whatever it says
		{errors.Is(err, guard.ErrHeld), contended},
		{errors.Is(err, guard.ErrClosed), closed},
		{errors.Is(err, guard.ErrUnavailable), unavailable},
		{errors.Is(err, guard.ErrNested), nested},
		{errors.Is(err, guard.ErrUnsupported), unsupported},
		{errors.Is(err, guard.ErrInvalid), misconfigured},
	} {
		if one.yes {
			return one.verdict
		}
	}
	return other
}

// retryIn is when to send a refused call again. What is left of a lease bounds
// the wait for a holder that crashed and says little about one that renews: 5 s
// is enough of it. What nothing is known of is given 100 ms.
func (v verdict) retryIn(err error) time.Duration {
	switch v.code {
	case codes.Aborted:
		left := 100 * time.Millisecond
		var hint interface{ RetryAfter() time.Duration }
		if errors.As(err, &hint) {
			left = min(max(left, hint.RetryAfter()), 5*time.Second)
		}
		return left + rand.N(left/4)
	case codes.Unavailable:
		return time.Second + rand.N(time.Second)
	}
	return 0
}

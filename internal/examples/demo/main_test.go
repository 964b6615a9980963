package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const played = `POST /orders: 200 {"id":"42","cents":1250,"state":"new"}
POST /orders: 200 {"id":"42","cents":1250,"state":"new"}
POST /orders/42/pay: 200 {"id":"42","cents":1250,"state":"paid"}
Ship: <nil> shipped
GET /export: 409 {"type":"https://pkg.go.dev/github.com/holdfast-go/holdfast/guard#ErrHeld","title":"Locked","status":409,"detail":"Another request holds the lock. This one was not processed and may be sent again.","code":"contended"}
Import: <nil> 1
GET /export: 200 {"id":"42","cents":1250,"state":"shipped"}
{"id":"43","cents":990,"state":"new"}

1 POST /orders
  └ lock order acquired
2 POST /orders
  └ lock order acquired
3 POST /orders/{id}/pay
  └ lock order acquired
    └ charge
4 shop.v1.Orders/Ship
  └ lock order acquired_after_wait
    └ wait order acquired_after_wait, held by lock order of 3
5 shop.v1.Orders/Import
  └ lock tenant acquired
    └ lock order acquired
6 GET /export
  └ lock tenant refused, held by lock tenant of 5
7 GET /export
  └ lock tenant acquired
`

func TestTracesShowWhoWaitedForWhomAcrossReplicasAndEdges(t *testing.T) {
	for name, addr := range map[string]func() string{
		"memory": func() string { return "" },
		"Redis":  func() string { return redistest.Start(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, addr()))
			assert.Equal(t, played, out.String())
		})
	}
}

package tb_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/faults/tb"
)

func TestRunCleansUpAndReports(t *testing.T) {
	var order []int
	err := tb.Run("one", func(t *tb.T) {
		t.Cleanup(func() { order = append(order, 1) })
		t.Cleanup(func() { order = append(order, 2) })
		t.Errorf("trouble %d", 7)
		defer func() { order = append(order, 0) }()
		t.Fatal("no more")
	})
	assert.EqualError(t, err, "one: trouble 7\nno more")
	assert.Equal(t, []int{0, 2, 1}, order)
	assert.NoError(t, tb.Run("two", func(*tb.T) {}))
	assert.Error(t, tb.Run("three", func(t *tb.T) { t.Skip("no server") }), "nothing was shown")
}

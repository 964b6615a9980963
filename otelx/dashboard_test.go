package otelx_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast/guard"
)

type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Query string }
	}
}

// The dashboard and the instruments change together or not at all.
func TestDashboardShowsEveryInstrumentAndNothingElse(t *testing.T) {
	file, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var board dashboard
	require.NoError(t, json.Unmarshal(file, &board))
	exprs := []string{board.Templating.List[1].Query}
	legends := ""
	for _, p := range board.Panels {
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
			legends += target.LegendFormat
		}
	}

	tel := newTelemetry()
	everything(t, tel)
	exist, labels := map[string]bool{}, map[string]bool{"le": true}
	for _, m := range tel.collect(t) {
		exist[prometheusName(m)] = true
		for _, set := range pointsOf(m) {
			for _, kv := range set.ToSlice() {
				labels[underscores(string(kv.Key))] = true
			}
		}
	}
	shown, asked := map[string]bool{}, map[string]bool{}
	for _, expr := range exprs {
		assert.Equal(t, strings.Count(expr, "("), strings.Count(expr, ")"), expr)
		for _, word := range regexp.MustCompile(`\bdistributed_lock_\w+`).FindAllString(expr, -1) {
			if labels[word] {
				continue
			}
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				if whole, found := strings.CutSuffix(word, part); found && strings.HasSuffix(whole, "_seconds") {
					word = whole
				}
			}
			shown[word] = true
		}
		for _, m := range regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`).FindAllStringSubmatch(expr, -1) {
			assert.True(t, labels[m[1]], "no instrument has %s: %s", m[1], expr)
			for v := range strings.SplitSeq(m[2], "|") {
				asked[v] = true
			}
		}
	}
	assert.Equal(t, exist, shown)
	for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legends, -1) {
		assert.True(t, labels[m[1]], m[1])
	}
	assert.Equal(t, map[string]bool{
		"$class": true, "": true, guard.ResultAcquired: true, guard.ResultFailed: true, "lost": true,
	}, asked)
}

// prometheusName is what Prometheus makes of an instrument's name.
//
// Source: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
func prometheusName(m metricdata.Metrics) string {
	name := underscores(m.Name)
	if m.Unit == "s" { // a unit in braces is left out
		name += "_seconds"
	}
	if sum, ok := m.Data.(metricdata.Sum[int64]); ok && sum.IsMonotonic {
		name += "_total"
	}
	return name
}

func underscores(name string) string { return strings.ReplaceAll(name, ".", "_") }

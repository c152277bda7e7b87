// Package openmetricstest reads pages in OpenMetrics' text format in tests, with Prometheus'
// own parser.
package openmetricstest

import (
	"errors"
	"io"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// Read returns the samples of a page by series, spelled as on the page. It fails the test if
// the page violates the format or repeats a series.
func Read(t testing.TB, page []byte) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for p := textparse.NewOpenMetricsParser(page, labels.NewSymbolTable()); ; {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		series, _, value := p.Series()
		if _, twice := out[string(series)]; twice {
			t.Fatalf("%s stands twice in\n%s", series, page)
		}
		out[string(series)] = value
	}
}

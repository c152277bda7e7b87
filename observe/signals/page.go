package signals

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// MaxPage is the maximum size of a metrics page, in bytes. An istiod with
// thousands of proxies serves less than a megabyte.
const MaxPage = 64 << 20

// ErrPageTooLarge is returned for a page of more than [MaxPage] bytes.
var ErrPageTooLarge = errors.New("the metrics page is too large")

// readPage reads a page of at most limit bytes.
func readPage(r io.Reader, limit int64) ([]byte, error) {
	page, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("metrics page: %w", err)
	}
	if int64(len(page)) > limit {
		return nil, errs.WithHint(fmt.Errorf("%w: more than %d bytes", ErrPageTooLarge, limit),
			"is this the metrics address of an istiod?")
	}
	return page, nil
}

// walkPage calls each for every sample of a page in Prometheus's text format,
// or in OpenMetrics format if the page ends with its required "# EOF". series
// is the sample as written on the page, metric returns its labels; both are
// valid only during the call. at is the sample's timestamp on the page, in
// milliseconds, or nil. counter reports that the sample never decreases during
// its process's lifetime.
func walkPage(page []byte, each func(series []byte, metric func() labels.Labels, at *int64, value float64, counter bool) error) error {
	if bytes.ContainsRune(page, 0) { // neither format allows NUL
		return errors.New("metrics page: not text")
	}
	parser := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	if bytes.HasSuffix(bytes.TrimRight(page, "\n"), []byte("\n# EOF")) {
		parser = textparse.NewOpenMetricsParser(page, labels.NewSymbolTable(), textparse.WithOMParserSTSeriesSkipped())
	}
	var family []byte
	var rises bool // the family's samples never decrease
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("metrics page: %w", err)
		}
		switch entry {
		case textparse.EntryType:
			name, t := parser.Type()
			family = append(family[:0], name...)
			rises = t == model.MetricTypeCounter || t == model.MetricTypeHistogram
		case textparse.EntrySeries:
			series, at, value := parser.Series()
			metric := func() labels.Labels {
				var l labels.Labels
				parser.Labels(&l)
				return l
			}
			if err := each(series, metric, at, value, rises && bytes.HasPrefix(series, family)); err != nil {
				return err
			}
		}
	}
}

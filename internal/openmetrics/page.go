// Package openmetrics writes metrics in the text format of OpenMetrics 1.0, as a document
// or over HTTP. A [Page] collects samples in families; a [Server] creates one for each
// request.
package openmetrics

import (
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// ContentType is the media type of a page.
const ContentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// A Page holds metric families in the order of their first samples. The zero value is an
// empty page. Labels are pairs of names and values; those without a value are omitted, as
// the format treats them as absent.
type Page struct {
	families []*dto.MetricFamily
	byName   map[string]*dto.MetricFamily
}

// Metric describes a family of samples. Its full name ends in its unit, which Name omits;
// Unit is "" for plain numbers.
type Metric struct{ Name, Unit, Help string }

// name returns the full name of the family.
func (m Metric) name() string {
	if m.Unit == "" {
		return m.Name
	}
	return m.Name + "_" + m.Unit
}

// Gauge adds a value that may rise and fall.
func (p *Page) Gauge(m Metric, value float64, labels ...string) {
	p.add(m, m.name(), dto.MetricType_GAUGE, &dto.Metric{Gauge: &dto.Gauge{Value: &value}}, labels)
}

// Counter adds a value that only rises.
func (p *Page) Counter(m Metric, value float64, labels ...string) {
	p.add(m, m.name()+"_total", dto.MetricType_COUNTER, &dto.Metric{Counter: &dto.Counter{Value: &value}}, labels)
}

// Bucket counts the observations up to a bound.
type Bucket struct {
	UpTo  float64
	Count uint64
}

// Histogram adds counts of observations; the last bucket counts all.
func (p *Page) Histogram(m Metric, buckets []Bucket, sum float64, labels ...string) {
	h := &dto.Histogram{SampleSum: &sum, SampleCount: new(uint64)}
	for _, b := range buckets { // the encoder adds the infinite bucket
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &b.UpTo, CumulativeCount: &b.Count})
		*h.SampleCount = b.Count
	}
	p.add(m, m.name(), dto.MetricType_HISTOGRAM, &dto.Metric{Histogram: h}, labels)
}

func (p *Page) add(m Metric, name string, kind dto.MetricType, sample *dto.Metric, labels []string) {
	family := p.byName[name]
	if family == nil {
		family = &dto.MetricFamily{Name: &name, Help: &m.Help, Type: &kind}
		if m.Unit != "" {
			family.Unit = &m.Unit
		}
		if p.byName == nil {
			p.byName = map[string]*dto.MetricFamily{}
		}
		p.byName[name], p.families = family, append(p.families, family)
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i+1] != "" {
			sample.Label = append(sample.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
		}
	}
	family.Metric = append(family.Metric, sample)
}

// Write writes the page, including its final line.
func (p *Page) Write(w io.Writer) error {
	for _, family := range p.families {
		if _, err := expfmt.MetricFamilyToOpenMetrics(w, family); err != nil {
			return err
		}
	}
	_, err := expfmt.FinalizeOpenMetrics(w)
	return err
}

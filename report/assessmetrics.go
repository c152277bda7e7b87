package report

import (
	"fmt"
	"io"
	"math"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/internal/openmetrics"
)

// figureMetrics name the figures of an assessment as metrics, without their units.
var figureMetrics = map[string]openmetrics.Metric{
	assess.FigureCount:       {Name: "meshtrial_mesh_proxies", Help: "Proxies of the mesh, and replicas of istiod, by kind."},
	assess.FigureCores:       {Name: "meshtrial_mesh_cpu", Help: "CPU of all of a kind."},
	assess.FigureMemory:      {Name: "meshtrial_mesh_memory", Help: "Working set of all of a kind."},
	assess.FigureMonth:       {Name: "meshtrial_mesh_requested_month", Help: "Monthly price of what all of a kind request."},
	assess.FigureRequests:    {Name: "meshtrial_mesh_requests", Help: "Requests that left pods with sidecars."},
	assess.FigureL7:          {Name: "meshtrial_mesh_requests_of_l7", Help: "Share of requests that need L7."},
	assess.FigureIdle:        {Name: "meshtrial_mesh_idle_cpu", Help: "CPU of one without requests."},
	assess.FigureEach:        {Name: "meshtrial_mesh_cpu_of_1000_requests", Help: "CPU that 1,000 requests per second add to one."},
	assess.FigureConfig:      {Name: "meshtrial_mesh_configuration", Help: "Configuration of one, as JSON, mean."},
	assess.FigureServices:    {Name: "meshtrial_mesh_services", Help: "Services of the cluster."},
	assess.FigureCoresEach:   {Name: "meshtrial_mesh_cpu_of_each", Help: "CPU of one of a kind, mean."},
	assess.FigureCoresLoad:   {Name: "meshtrial_mesh_cpu_by_load", Help: "CPU of all of a kind for 1,000 requests per second that pass them, or of istiod for 1,000 proxies."},
	assess.FigureBytesEach:   {Name: "meshtrial_mesh_memory_of_each", Help: "Working set of one of a kind, mean."},
	assess.FigureBytesLoad:   {Name: "meshtrial_mesh_memory_by_load", Help: "Working set of istiod for 1,000 proxies."},
	assess.FigureConvergence: {Name: "meshtrial_mesh_push_p99", Help: "From the end of debouncing until configuration was sent, p99, by istiod's own metrics."},
}

// assessmentMetrics writes a gauge for each figure that is known whole, in base units, and counts of what is
// advised, known of the versions and unknown. There are no timestamps, as in the findings of a run.
func assessmentMetrics(w io.Writer, a assess.Assessment) error {
	var page openmetrics.Page
	for _, f := range a.Figures() {
		m, named := figureMetrics[f.Name]
		scale, unit := metricUnit(f.Unit)
		labels := []string{"kind", string(f.Kind)}
		if f.Name == assess.FigureMonth { // a currency such as € is no part of a metric's name
			scale, unit, labels = 1, "", append(labels, "currency", clean(f.Unit))
		}
		if value := scale * f.Value; named && !math.IsNaN(value) && !math.IsInf(value, 0) {
			m.Unit = unit
			page.Gauge(m, value, labels...)
		}
	}
	if a.Limits != nil {
		for _, j := range a.Limits.Advice {
			page.Gauge(openmetrics.Metric{Name: "meshtrial_mesh_advice", Help: "Rules of advice that hold: how sure they are, from 0 to 1."}, j.Confidence, "rule", clean(j.Rule))
		}
	}
	for _, p := range a.Mesh.Problems {
		page.Gauge(openmetrics.Metric{Name: "meshtrial_mesh_known_problem", Help: "Proxies or istiods of a version with a known problem of performance."}, float64(p.Count),
			"problem", p.Code, "kind", string(p.Kind), "version", clean(p.Version))
	}
	unknown := map[string]int{}
	for _, u := range a.Unknown {
		unknown[u.Section]++
	}
	for _, section := range assess.Sections {
		page.Gauge(openmetrics.Metric{Name: "meshtrial_mesh_unknown", Help: "Things that the assessment could not see, by its section."}, float64(unknown[section]), "section", section)
	}
	if !a.At.IsZero() {
		page.Gauge(openmetrics.Metric{Name: "meshtrial_assessment_timestamp", Unit: "seconds", Help: "When the mesh was assessed, Unix time."}, float64(a.At.Unix()))
	}
	if err := page.Write(w); err != nil {
		return fmt.Errorf("assessment as OpenMetrics: %w", err)
	}
	return nil
}

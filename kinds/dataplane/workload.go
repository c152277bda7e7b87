package dataplane

import (
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/study"
)

// Workload is what the worker does with a request, in every cell.
type Workload struct {
	// Response is the size of the response body; [study.Echo] sends the request's body back.
	Response    study.Bytes
	ServiceTime ServiceTime
}

// ServiceTime is how long the worker holds a request before it responds.
type ServiceTime struct {
	Distribution string
	Mean         time.Duration // of the distribution itself, including lognormal; unused when recorded
	// Sigma is the standard deviation of the time's natural logarithm (lognormal only).
	Sigma float64
	// Values are recorded times to draw from at random (recorded only).
	Values []time.Duration
	// File names a file of recorded times, one duration a line; see [study.Study.WithFiles]. It is
	// empty once they are in Values.
	File string
}

func workload(w *Workload) study.Object {
	t := &w.ServiceTime
	return study.Object{Name: "workload", Fields: []study.Field{
		{Name: "response", Doc: "Response body size; echo returns the request's body, as TCP always does.", Value: response(&w.Response)},
		{Name: "service_time", Doc: "Service time of the worker.", Value: study.TimeObject(&t.Distribution, &t.Mean, &t.Sigma, &t.Values,
			study.Field{Name: "file", Doc: "File of recorded times next to the study, one per line (recorded).", Value: study.Prose(&t.File)})},
	}}
}

// response is the size of a response, or echo.
func response(to *study.Bytes) study.Single[study.Bytes] {
	parse := func(text string) (study.Bytes, *study.Error) {
		if text == study.Echo.String() {
			return study.Echo, nil
		}
		b, c := study.ParseBytes(text)
		switch {
		case c != nil:
			c.Hint = strings.TrimPrefix(c.Hint+", or echo", ", or ")
		case b > study.MaxPayload:
			c = study.Complain(study.CodeRange, "use at most 64MiB", "%s is too large", text)
		}
		return b, c
	}
	pattern := study.Payload.Pattern
	return study.Parsed(to, parse, study.Bytes.String, jsonschema.Schema{Type: "string", Pattern: strings.Replace(pattern, "^", "^(echo|", 1)[:len(pattern)+5] + ")$", Examples: []any{"echo", "1KiB"}})
}

func checkServiceTime(d *study.Decoder, t *ServiceTime) {
	at := func(f string) study.Pos { return d.Pos("workload", "service_time", f) }
	recorded := t.Distribution == study.DistributionRecorded
	switch {
	case recorded && (t.File == "") == (len(t.Values) == 0):
		d.Fail(at("distribution"), study.CodeConflict, "", "distribution recorded needs either values or a file")
	case recorded && t.Mean != 0:
		d.Fail(at("mean"), study.CodeConflict, "leave it out", "recorded times have their own mean")
	case !recorded && (t.File != "" || len(t.Values) > 0):
		d.Fail(at("distribution"), study.CodeConflict, "use distribution: recorded, or leave values and file out", "distribution %s takes no recorded times", t.Distribution)
	case t.Distribution != study.DistributionLognormal && t.Sigma != 0:
		d.Fail(at("sigma"), study.CodeConflict, "leave it out", "sigma is for distribution lognormal")
	case t.Distribution == study.DistributionLognormal && t.Sigma == 0:
		d.Fail(at("distribution"), study.CodeConflict, "for example sigma: 0.5", "distribution lognormal needs a sigma above 0")
	case (t.Distribution == study.DistributionLognormal || t.Distribution == study.DistributionExponential) && t.Mean == 0:
		d.Fail(at("distribution"), study.CodeConflict, "for example mean: 1ms", "distribution %s needs a mean above 0", t.Distribution)
	}
}

// maxValues limits the number of recorded times, in a study and in a file it names.
const maxValues = 10_000

func parseTime(text string) (time.Duration, *study.Error) {
	v, c := study.ParseDuration(text)
	if c == nil && v > time.Minute {
		c = study.Complain(study.CodeRange, "use at most 1m", "%s is too long", text)
	}
	return v, c
}

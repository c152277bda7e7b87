package controlplane

import (
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/study"
)

// maxTrace limits the number of recorded changes in a study.
const maxTrace = 10_000

// TraceChange is a recorded change.
type TraceChange struct {
	At     time.Duration // since the start of the window
	Change string        // a level of factor change other than trace and mixed
}

// String formats the change as studies write it.
func (c TraceChange) String() string { return study.FormatDuration(c.At) + " " + c.Change }

func parseTraceChange(s string) (TraceChange, *study.Error) {
	const hint = "write time and kind, such as 1.5s endpoints-scale"
	fields := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
	if len(fields) != 2 {
		return TraceChange{}, study.Complain(study.CodeInvalid, hint, "%q is not a recorded change", study.Clip(s, 60))
	}
	if _, c := study.Number(fields[0]); c == nil { // recorded traces use plain seconds
		fields[0] += "s"
	}
	at, c := study.ParseDuration(fields[0])
	if c != nil {
		return TraceChange{}, c
	}
	f, _ := study.FactorByName(FactorChange)
	if fields[1] == ChangeTrace || fields[1] == ChangeMixed {
		return TraceChange{}, study.Complain(study.CodeInvalid, hint, "%s is not a single change", fields[1])
	}
	if RoutesGateway(fields[1]) {
		return TraceChange{}, study.Complain(study.CodeInvalid, "make it the study's change: "+fields[1], "%s cannot be among recorded changes", fields[1])
	}
	if _, c := f.Parse(fields[1]); c != nil {
		return TraceChange{}, c
	}
	return TraceChange{At: at, Change: fields[1]}, nil
}

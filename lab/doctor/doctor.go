// Package doctor says whether a machine is fit to measure on.
//
// [Gather] reads facts from a root file system (/proc, /sys, /etc) and from
// a [Host], which answers what only a live machine can: which programs are
// on the path, how late a timer wakes, who used CPU over the last second.
// [Judge] turns those [Facts] into [Line]s, each ok, warning or failure with
// what mends it, and touches nothing. Tests give a made-up file system and
// host.
package doctor

// Status of a line.
const (
	OK      = "ok"
	Warning = "warning" // measuring works, with results to be read with care
	Failure = "failure" // what the line names does not work here
)

// Line is one fact about a machine: whether it is as meshtrial needs it, and
// if not, the command or the advice that mends it. Other packages report
// what they need of a machine in the same shape.
type Line struct {
	Name   string `json:"name"`           // short: "cgroups", "file limit"
	Status string `json:"status"`         // OK, Warning or Failure
	Detail string `json:"detail"`         // what was seen, in words, with figures
	Mend   string `json:"mend,omitempty"` // a shell command, or what to do; empty if ok
}

// Worst returns the worst status among lines, OK if there are none.
func Worst(lines []Line) string {
	worst := OK
	for _, line := range lines {
		switch {
		case line.Status == Failure:
			return Failure
		case line.Status == Warning:
			worst = Warning
		}
	}
	return worst
}

func ok(name, detail string) Line { return Line{Name: name, Status: OK, Detail: detail} }

func warn(name, detail, mend string) Line {
	return Line{Name: name, Status: Warning, Detail: detail, Mend: mend}
}

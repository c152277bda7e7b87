package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
)

var respectWords = map[RespectCode]string{
	RespectProxies: "proxies of a replica", RespectServices: "services", RespectVisible: "services that a sidecar sees",
	RespectRate: "changes per second", RespectCores: "CPUs of a replica", RespectFewCores: "CPUs of a replica",
}

// String describes a respect for people.
func (r Respect) String() string {
	measured := Figure(r.Measured[0], 4) + " to " + Figure(r.Measured[1], 4) + " that were measured"
	if r.Measured[0] == r.Measured[1] {
		measured = Figure(r.Measured[0], 4) + ", the only level that was measured"
	}
	value := respectWords[r.Code] + ": " + Figure(r.Value, 4)
	switch {
	case r.Code == RespectKinds:
		return fmt.Sprintf("kinds of change: no run had %s, which counts as %d times beyond", strings.Join(r.Kinds, ", "), newKind)
	case r.Code == RespectFewCores:
		return fmt.Sprintf("%s is %s times less than %s", value, Figure(r.Times, 3), measured)
	case r.Times > 0:
		return fmt.Sprintf("%s is %s times beyond %s", value, Figure(r.Times, 3), measured)
	}
	return fmt.Sprintf("%s is below %s", value, measured)
}

// String describes an end for people.
func (e End) String() string {
	switch e.Code {
	case EndQueue:
		return fmt.Sprintf("the push queue never empties: each sweep over the proxies takes %s s of all CPUs", Figure(e.Seconds, 3))
	case EndConvergence:
		return fmt.Sprintf("p99 of convergence is %s s, above the bound", Figure(e.Seconds, 3))
	case EndUnpredictable:
		return "such a mesh is too large to be predicted"
	}
	return "no end was found"
}

// String describes a reason for people.
func (w Why) String() string {
	switch w.Code {
	case WhyMachine:
		return fmt.Sprintf("%s on %s, and in most trials on %s", w.Part, w.On, w.Usual)
	case WhyClients:
		return "its clients are " + w.Level
	case WhyCell:
		return w.Level
	}
	return whyWords[w.Code]
}

var whyWords = map[WhyCode]string{
	WhyInvalid:     "invalid",
	WhyNoMetrics:   "it has no metrics of istiod",
	WhyNoProxies:   "it has no simulated sidecars",
	WhyRealProxies: "it has real proxies, gateways or ztunnels, whose bytes are not counted separately",
	WhyNoCPU:       "it has no CPU time of istiod",
	WhyNoChanges:   "it has no changes",
	WhyNoPushes:    "istiod pushed nothing, or does not count turns",
	WhyScope:       "Sidecars, exportTo or discoverySelectors keep an unknown share of changes from proxies",
	WhyXDS:         "its proxies speak state-of-the-world xDS",
	WhyHBONE:       "its sidecars speak HBONE and receive all workloads",
}

// String describes a limitation for people.
func (n Note) String() string {
	switch n.Code {
	case NoteOneCell:
		return "the runs have one cell: the residuals are of that cell itself, and no other was predicted"
	case NoteOneTrial:
		return fmt.Sprintf("%d of %d cells have one trial: no interval includes how far their trials scatter; a second block of the study would", n.N, n.Of)
	case NoteNoP99:
		return fmt.Sprintf("in %d of %d trials p99 of convergence is among changes that were never acknowledged: "+
			"a cell whose median trial is one of them has no measured p99", n.N, n.Of)
	case NoteMachines:
		return fmt.Sprintf("the model is of %s and leaves out %s on other machines", strings.Join(n.Machines, ", and "), words.Plural(n.N, "trial"))
	case NoteShared:
		return fmt.Sprintf("in %d of %d trials programs outside the study used more than a tenth of the machine: times may include waiting for a CPU", n.N, n.Of)
	case NoteIstiodsVary:
		return "the runs have different versions of istiod: no parameter tells them apart"
	}
	return string(n.Code)
}

// Because says why an assumed parameter has its value.
func (f Fitted) Because() string {
	if f.Undivided {
		return "the runs tell only the sum of this and other costs; the interval spans all divisions of that sum"
	}
	for _, d := range Definitions {
		if d.Name == f.Name {
			return d.Because
		}
	}
	return ""
}

// TimesBeyond returns a clause that says how far something exceeds the measured range, or "" if
// it does not.
func TimesBeyond(times float64) string {
	if times <= noticed {
		return ""
	}
	return ", " + Figure(times, 3) + " times beyond what was measured"
}

// Figure formats a number with some significant digits for people: all digits before the point,
// thousands separators, no exponent.
func Figure(v float64, digits int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	after := max(0, digits-1-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', after, 64)
	if after > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return words.Apart(text)
}
